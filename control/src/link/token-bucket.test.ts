import { expect, test } from "vitest";
import { createTokenBucket } from "./token-bucket.ts";

test("gives a burst, then the rate, and never more than a burst after a pause", () => {
  const bucket = createTokenBucket({ ratePerSecond: 10, burst: 3 });
  const takes = (nowMs: number, count: number) => Array.from({ length: count }, () => bucket.take(nowMs));
  expect(takes(0, 4)).toEqual([true, true, true, false]);
  expect(takes(100, 2)).toEqual([true, false]);
  expect(takes(150, 1)).toEqual([false]);
  expect(takes(200, 1)).toEqual([true]);
  expect(takes(60_000, 5)).toEqual([true, true, true, false, false]);
});
