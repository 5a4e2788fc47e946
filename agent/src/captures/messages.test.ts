import { expect, test } from "vitest";
import { createMessages } from "./messages.ts";

test.each([
  { when: "one at a time", chunks: ["a\0", "b\0"], heard: [["a"], ["b"]] },
  { when: "several at once", chunks: ["a\0b\0c"], heard: [["a", "b"]] },
  { when: "in pieces", chunks: ["a", "b", "c\0d\0"], heard: [[], [], ["abc", "d"]] },
  { when: "cut in a letter", chunks: [Buffer.from([0xc3]), Buffer.from([0xa4, 0])], heard: [[], ["ä"]] },
  { when: "as long as they may be", chunks: ["12345678\0"], heard: [["12345678"]] },
  { when: "longer", chunks: ["123456789\0"], heard: [null] },
  { when: "longer, without an end", chunks: ["12345", "6789"], heard: [[], null] },
])("messages $when", ({ chunks, heard }) => {
  const messages = createMessages(8);
  expect(chunks.map((chunk) => messages.push(Buffer.from(chunk)))).toEqual(heard);
});
