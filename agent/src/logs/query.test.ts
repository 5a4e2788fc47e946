import { expect, test } from "vitest";
import { lastBytes } from "./query.ts";

test.each([
  { when: "it fits", text: "a\nb\n", maxBytes: 10, kept: "a\nb\n" },
  { when: "it is too long", text: "first\nsecond\nthird\n", maxBytes: 10, kept: "third\n" },
  { when: "one line is too long", text: "abcdefghij", maxBytes: 4, kept: "ghij" },
])("when $when", ({ text, maxBytes, kept }) => {
  expect(lastBytes(text, maxBytes)).toBe(kept);
});
