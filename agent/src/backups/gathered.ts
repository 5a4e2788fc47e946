/** The same bytes in pieces of at least `pieceBytes`, the last one aside: for who takes as long for a small piece as for a large one. */
export async function* gathered(chunks: AsyncIterable<Buffer>, pieceBytes: number): AsyncGenerator<Buffer> {
  let held: Buffer[] = [];
  let length = 0;
  for await (const chunk of chunks) {
    held.push(chunk);
    length += chunk.length;
    if (length < pieceBytes) continue;
    yield Buffer.concat(held, length);
    held = [];
    length = 0;
  }
  if (length > 0) yield Buffer.concat(held, length);
}
