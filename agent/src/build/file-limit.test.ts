import { expect, test } from "vitest";
import { hitFileLimit } from "./file-limit.ts";

test.each([
  { when: "the signal ended it", exitCode: 153, lastLines: [], hit: true },
  { when: "a program said so", exitCode: 1, lastLines: ["fallocate: fallocate failed: File too large", ""], hit: true },
  { when: "Node said so", exitCode: 1, lastLines: ["Error: EFBIG: file too large, write"], hit: true },
  { when: "it failed otherwise", exitCode: 1, lastLines: ["error TS2304"], hit: false },
])("when $when", ({ exitCode, lastLines, hit }) => {
  expect(hitFileLimit(exitCode, lastLines)).toBe(hit);
});
