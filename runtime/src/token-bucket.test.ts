import { expect, test } from "vitest";
import { createTokenBucket, createTokenBuckets } from "./token-bucket.ts";

test("gives a burst, then the rate, and never more than a burst after a pause", () => {
  const bucket = createTokenBucket({ ratePerSecond: 10, burst: 3 });
  const takes = (nowMs: number, count: number) => Array.from({ length: count }, () => bucket.take(nowMs));
  expect(takes(0, 4)).toEqual([true, true, true, false]);
  expect(takes(100, 2)).toEqual([true, false]);
  expect(takes(150, 1)).toEqual([false]);
  expect(takes(200, 1)).toEqual([true]);
  expect(takes(60_000, 5)).toEqual([true, true, true, false, false]);
});

test("a name that takes all of its own leaves the others theirs", () => {
  const buckets = createTokenBuckets({ ratePerSecond: 2, burst: 5, max: 100 });
  const takes = (name: string, nowMs: number, count: number) =>
    Array.from({ length: count }, () => buckets.take(name, nowMs)).filter(Boolean).length;
  expect(takes("loud", 0, 100)).toBe(5);
  expect(takes("quiet", 0, 2)).toBe(2);
  expect(takes("loud", 1_000, 100)).toBe(2);
});

test("names are forgotten when their bucket is full again, and the idlest when there are too many", () => {
  const buckets = createTokenBuckets({ ratePerSecond: 2, burst: 4, max: 3 });
  for (const name of ["a", "b", "c"]) buckets.take(name, 0);
  buckets.take("a", 1_000);
  expect(buckets.size).toBe(3);
  buckets.take("d", 1_500);
  expect(buckets.size).toBe(3);
  buckets.take("e", 2_500);
  expect(buckets.size).toBe(3);
  buckets.take("e", 60_000);
  expect(buckets.size).toBe(1);
});
