import type { Readable } from "node:stream";

/** `content` in pieces of `pieceBytes`, the last one shorter; none for nothing. One is in memory at a time. */
export async function* inPieces(content: Readable | Buffer, pieceBytes: number): AsyncGenerator<Buffer> {
  let held: Buffer[] = [];
  let length = 0;
  const parts = Buffer.isBuffer(content) ? [content] : (content as AsyncIterable<Uint8Array | string>);
  for await (const part of parts) {
    let rest =
      typeof part === "string" ? Buffer.from(part) : Buffer.from(part.buffer, part.byteOffset, part.byteLength);
    while (length + rest.length >= pieceBytes) {
      const fits = pieceBytes - length;
      yield Buffer.concat([...held, rest.subarray(0, fits)]);
      rest = rest.subarray(fits);
      held = [];
      length = 0;
    }
    held.push(rest);
    length += rest.length;
  }
  if (length > 0) yield Buffer.concat(held);
}
