import fc from "fast-check";
import { expect, test } from "vitest";
import { backoffMs } from "./backoff.ts";

test.each([
  { attempt: 0, random: 0.999, atMost: 100 },
  { attempt: 3, random: 0.999, atMost: 800 },
  { attempt: 60, random: 0.999, atMost: 8_000 },
])("attempt $attempt waits at most $atMost ms", ({ attempt, random, atMost }) => {
  expect(backoffMs(attempt, random)).toBeLessThan(atMost);
  expect(backoffMs(attempt, random)).toBeGreaterThan(atMost * 0.99 - 1);
});

test("the delay stays within its ceiling, whatever the attempt", () => {
  fc.assert(
    fc.property(fc.nat(), fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), (attempt, random) => {
      const delayMs = backoffMs(attempt, random);
      return delayMs >= 0 && delayMs < 8_000;
    }),
  );
});
