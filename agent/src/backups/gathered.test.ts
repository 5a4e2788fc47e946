import { expect, test } from "vitest";
import { gathered } from "./gathered.ts";

async function* chunksOf(...texts: string[]): AsyncGenerator<Buffer> {
  for (const text of texts) yield Buffer.from(text);
}

async function inTexts(pieces: AsyncIterable<Buffer>): Promise<string[]> {
  const texts: string[] = [];
  for await (const piece of pieces) texts.push(piece.toString());
  return texts;
}

test.each([
  { when: "chunks are small", chunks: ["a", "b", "cd", "e"], pieces: ["abcd", "e"] },
  { when: "one is larger than a piece", chunks: ["a", "bcdefg", "h"], pieces: ["abcdefg", "h"] },
  { when: "they come out even", chunks: ["ab", "c", "def"], pieces: ["abc", "def"] },
  { when: "some are empty", chunks: ["", "a", ""], pieces: ["a"] },
  { when: "there is nothing", chunks: [], pieces: [] },
])("every byte comes, in its order, when $when", async ({ chunks, pieces }) => {
  expect(await inTexts(gathered(chunksOf(...chunks), 3))).toEqual(pieces);
});

test("a failure of the source is passed on, and what was held back by then is not", async () => {
  async function* broken(): AsyncGenerator<Buffer> {
    yield Buffer.from("ab");
    throw new Error("cut");
  }
  const heard: string[] = [];
  const listen = async () => {
    for await (const piece of gathered(broken(), 3)) heard.push(piece.toString());
  };
  await expect(listen()).rejects.toThrow("cut");
  expect(heard).toEqual([]);
});
