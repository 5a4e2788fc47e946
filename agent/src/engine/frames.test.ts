import { expect, test } from "vitest";
import { standardOutput } from "./frames.ts";

function frame(stream: 1 | 2, text: string): Buffer {
  const header = Buffer.alloc(8);
  header[0] = stream;
  header.writeUInt32BE(Buffer.byteLength(text), 4);
  return Buffer.concat([header, Buffer.from(text)]);
}
async function* inPieces(bytes: Buffer, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}
async function read(bytes: Buffer, size: number): Promise<{ output: string; errors: string }> {
  const [output, errors]: [string[], string[]] = [[], []];
  for await (const part of standardOutput(inPieces(bytes, size), (text) => errors.push(`${text}`))) {
    output.push(`${part}`);
  }
  return { output: output.join(""), errors: errors.join("") };
}

const both = Buffer.concat([frame(1, "one "), frame(2, "oh"), frame(1, ""), frame(1, "two"), frame(2, "!")]);

test.each([1, 3, 8, 1_000])("the two outputs are told apart, in pieces of %i bytes", async (size) => {
  expect(await read(both, size)).toEqual({ output: "one two", errors: "oh!" });
});

test.each([3, 10])("an end after %i bytes, inside a piece, is no end", async (length) => {
  await expect(read(both.subarray(0, length), 2)).rejects.toThrow(/broke off/);
});
