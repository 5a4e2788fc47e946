/** The engine puts before each piece which of the two outputs it is of, and how long it is. */
const headerBytes = 8;
const standardError = 2;

/**
 * What a program writes to its standard output, out of the engine's stream of both outputs, as it is read: nobody reads
 * ahead, so a program that is faster than whoever takes its output waits.
 *
 * @param onError gets what it writes to standard error
 * @throws when the stream ends inside a piece
 */
export async function* standardOutput(
  stream: AsyncIterable<Buffer>,
  onError: (text: Buffer) => void,
): AsyncGenerator<Buffer> {
  let header = Buffer.alloc(0);
  let isError = false;
  let left = 0;
  for await (let chunk of stream) {
    while (chunk.length > 0) {
      if (left === 0) {
        const missing = headerBytes - header.length;
        header = Buffer.concat([header, chunk.subarray(0, missing)]);
        chunk = chunk.subarray(missing);
        if (header.length < headerBytes) continue;
        isError = header[0] === standardError;
        left = header.readUInt32BE(4);
        header = Buffer.alloc(0);
        continue;
      }
      const piece = chunk.subarray(0, left);
      left -= piece.length;
      chunk = chunk.subarray(piece.length);
      if (isError) onError(piece);
      else yield piece;
    }
  }
  if (left > 0 || header.length > 0) throw new Error("the output of a program broke off");
}
