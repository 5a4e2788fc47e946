import { describe, expect, test } from "vitest";
import { backOffMs, retry } from "./retry.ts";
import { createManualClock } from "./testing/manual-clock.ts";
import { fixedRandom } from "./testing/random.ts";

const bounds = { firstMs: 100, maxMs: 8_000 };

test.each([
  { failures: 1, random: 1, ms: 100 },
  { failures: 1, random: 0, ms: 0 },
  { failures: 3, random: 1, ms: 400 },
  { failures: 3, random: 0.5, ms: 200 },
  { failures: 8, random: 1, ms: 8_000 },
  { failures: 10_000, random: 1, ms: 8_000 },
])("after $failures failures at $random: $ms ms", ({ failures, random, ms }) => {
  expect(backOffMs(failures, bounds, random)).toBe(ms);
});

describe("retry", () => {
  const never = new AbortController().signal;
  const options = () => ({ clock: createManualClock(), random: fixedRandom(1), backOff: bounds, signal: never });

  /** Fails so often, then gives how often it was tried. */
  const failing = (times: number) => {
    let tries = 0;
    return async () => {
      tries += 1;
      if (tries <= times) throw new Error(`try ${tries}`);
      return tries;
    };
  };

  test("goes on until it succeeds, with growing pauses", async () => {
    const each = options();
    const pauses: number[] = [];
    const done = retry({ ...each, onFailure: (_, __, pauseMs) => pauses.push(pauseMs) }, failing(3));
    await each.clock.advance(700);
    expect(await done).toBe(4);
    expect(pauses).toEqual([100, 200, 400]);
  });

  test("throws the last failure when no attempt is left, or none may help", async () => {
    const each = options();
    const twice = retry({ ...each, attempts: 2 }, failing(9));
    const outcome = expect(twice).rejects.toThrow("try 2");
    await each.clock.advance(1_000);
    await outcome;
    await expect(retry({ ...each, mayHelp: () => false }, failing(9))).rejects.toThrow("try 1");
  });

  test("ends with the reason of its signal, also between attempts", async () => {
    const each = options();
    const stop = new AbortController();
    const done = retry({ ...each, signal: stop.signal }, failing(9));
    const outcome = expect(done).rejects.toThrow("stopping");
    await each.clock.advance(50);
    stop.abort(new Error("stopping"));
    await outcome;
    expect(each.clock.pending).toBe(0);
  });
});
