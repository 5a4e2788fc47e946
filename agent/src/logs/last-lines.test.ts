import { expect, test } from "vitest";
import { lastBytes, lastLines } from "./last-lines.ts";

test.each([
  { when: "it fits", text: "a\nb\n", maxBytes: 10, kept: "a\nb\n" },
  { when: "it is too long", text: "first\nsecond\nthird\n", maxBytes: 10, kept: "third\n" },
  { when: "one line is too long", text: "abcdefghij", maxBytes: 4, kept: "ghij" },
  { when: "the last line alone is too long", text: "a\nbcdefghij\n", maxBytes: 4, kept: "hij\n" },
  { when: "the cut goes through a character", text: "aaaé", maxBytes: 3, kept: "aé" },
])("bytes when $when", ({ text, maxBytes, kept }) => {
  expect(lastBytes(text, maxBytes)).toBe(kept);
});

test.each([
  { text: "a\nb\nc\n", maxLines: 2, kept: "b\nc\n" },
  { text: "a\nb\nc", maxLines: 2, kept: "b\nc" },
  { text: "a\n", maxLines: 5, kept: "a\n" },
  { text: "", maxLines: 5, kept: "" },
])("the last $maxLines lines of $text", ({ text, maxLines, kept }) => {
  expect(lastLines(text, maxLines, 100)).toBe(kept);
});
