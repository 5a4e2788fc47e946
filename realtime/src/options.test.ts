import { describe, expect, test } from "vitest";
import { readLimits } from "./options.ts";

test("unless said", () => {
  expect(readLimits({})).toEqual({
    channels: null,
    heartbeatMs: 30_000,
    rate: { maxTokens: 10, refillIntervalMs: 100, refillTokens: 1 },
    maxClients: 25,
    bufferSize: 100,
  });
});

test.each([
  [40, 40],
  [1_001, 1_000],
  [Number.POSITIVE_INFINITY, 1_000],
  [-1, 0],
  [2.5, 2],
  // A variable of the environment that is not set.
  [Number(undefined), 25],
])("maxClients %d are %d", (maxClients, are) => {
  expect(readLimits({ maxClients }).maxClients).toBe(are);
});

test.each([
  [false, 0],
  [{}, 100],
  [{ bufferSize: 0 }, 0],
  [{ bufferSize: -5 }, 0],
  [{ bufferSize: 7 }, 7],
  [{ bufferSize: 10_001 }, 10_000],
] as const)("replay %j keeps %d", (replay, keeps) => {
  expect(readLimits({ replay }).bufferSize).toBe(keeps);
});

describe("what no timer or bucket can keep", () => {
  test.each([
    { heartbeatMs: 0 },
    { heartbeatMs: Number.NaN },
    { heartbeatMs: Number.POSITIVE_INFINITY },
    { throttle: { maxTokens: 0 } },
    { throttle: { refillIntervalMs: -1 } },
  ])("%j is refused", (options) => {
    expect(() => readLimits(options)).toThrow(RangeError);
  });

  test("a heartbeat beyond the longest timer is that one, and not at once", () => {
    expect(readLimits({ heartbeatMs: 10 ** 12 }).heartbeatMs).toBe(2 ** 31 - 1);
  });
});

test("a throttle may say a part of itself, or that there is none", () => {
  expect(readLimits({ throttle: { maxTokens: 3 } }).rate).toEqual({
    maxTokens: 3,
    refillIntervalMs: 100,
    refillTokens: 1,
  });
  expect(readLimits({ throttle: false }).rate).toBeNull();
});
