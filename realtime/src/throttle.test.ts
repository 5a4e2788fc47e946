import { expect, test } from "vitest";
import { createThrottle } from "./throttle.ts";

const rate = { maxTokens: 10, refillIntervalMs: 100, refillTokens: 1 };
const takes = (throttle: ReturnType<typeof createThrottle>, channel: string, atMs: readonly number[]) =>
  atMs.filter((ms) => throttle.take(channel, ms)).length;

test("ten at once, then ten a second", () => {
  const throttle = createThrottle(rate);
  expect(takes(throttle, "a", Array(50).fill(0))).toBe(10);
  expect(throttle.take("a", 99)).toBe(false);
  const aSecond = Array.from({ length: 1_000 }, (_, at) => 100 + at);
  expect(takes(throttle, "a", aSecond)).toBe(10);
});

test("one channel takes nothing from another", () => {
  const throttle = createThrottle(rate);
  expect(takes(throttle, "a", Array(20).fill(0))).toBe(10);
  expect(takes(throttle, "b", Array(20).fill(0))).toBe(10);
});

test("a part of an interval is not lost to those who try often", () => {
  const throttle = createThrottle({ maxTokens: 1, refillIntervalMs: 100, refillTokens: 1 });
  expect(throttle.take("a", 0)).toBe(true);
  expect([60, 120, 180, 210].map((ms) => throttle.take("a", ms))).toEqual([false, true, false, true]);
});

test("after a long silence there are no more than at first", () => {
  const throttle = createThrottle(rate);
  takes(throttle, "a", [0]);
  expect(takes(throttle, "a", Array(50).fill(1_000_000))).toBe(10);
});

test("names that are not used any more are forgotten", () => {
  const throttle = createThrottle(rate);
  for (let user = 0; user < 10_000; user += 1) throttle.take(`user-${user}`, user * 10);
  expect(throttle.size).toBeLessThanOrEqual(101);
});
