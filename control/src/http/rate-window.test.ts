import fc from "fast-check";
import { expect, test } from "vitest";
import { secondsToWait, windowMs } from "./rate-window.ts";

test.each([
  { when: "nothing came yet", previous: 0, current: 0, atSeconds: 0, wait: null },
  { when: "one is left", previous: 0, current: 9, atSeconds: 5, wait: null },
  { when: "the limit is reached at the start", previous: 0, current: 10, atSeconds: 0, wait: 66 },
  { when: "the limit is reached at the end", previous: 0, current: 10, atSeconds: 59, wait: 7 },
  { when: "the minute before was full and has just ended", previous: 10, current: 0, atSeconds: 0, wait: 6 },
  { when: "a tenth of the full minute before is out of sight", previous: 10, current: 0, atSeconds: 6, wait: null },
  { when: "half of each counts", previous: 10, current: 5, atSeconds: 30, wait: 6 },
  {
    when: "the minute before was far above a limit that was lowered",
    previous: 100,
    current: 0,
    atSeconds: 0,
    wait: 55,
  },
])("of ten per minute, when $when", ({ previous, current, atSeconds, wait }) => {
  expect(secondsToWait({ previous, current, elapsedMs: atSeconds * 1000 }, 10)).toBe(wait);
});

const count = fc.integer({ min: 0, max: 200 });
const situation = fc.record({ previous: count, current: count, elapsedMs: fc.integer({ min: 0, max: windowMs - 1 }) });

test("whoever waits as long as they were told, and sends nothing, may go on", () => {
  fc.assert(
    fc.property(situation, fc.integer({ min: 1, max: 100 }), (window, limit) => {
      const wait = secondsToWait(window, limit);
      if (wait === null) return;
      const at = window.elapsedMs + wait * 1000;
      const minutes = Math.floor(at / windowMs);
      const previous = minutes === 0 ? window.previous : minutes === 1 ? window.current : 0;
      const current = minutes === 0 ? window.current : 0;
      expect(secondsToWait({ previous, current, elapsedMs: at % windowMs }, limit)).toBeNull();
    }),
    // Two thirds of a minute are not a whole number in binary.
    { numRuns: 2_000, examples: [[{ previous: 0, current: 198, elapsedMs: 0 }, 67]] },
  );
});

test("whoever sends as fast as they can gets the limit of each minute, and never twice the limit at once", () => {
  fc.assert(
    fc.property(fc.integer({ min: 2, max: 60 }), fc.integer({ min: 0, max: windowMs - 1 }), (limit, startMs) => {
      const passed: number[] = [];
      let [minute, previous, current] = [0, 0, 0];
      for (let at = startMs; at < startMs + 4 * windowMs; at += 250) {
        const now = Math.floor(at / windowMs);
        if (now !== minute) [minute, previous, current] = [now, current, 0];
        if (secondsToWait({ previous, current, elapsedMs: at % windowMs }, limit) !== null) continue;
        current += 1;
        passed.push(at);
      }
      const within = (from: number) => passed.filter((at) => at >= from && at < from + windowMs).length;
      for (let from = 0; from <= 4; from += 1) expect(within(from * windowMs)).toBeLessThanOrEqual(limit);
      for (const from of passed) expect(within(from)).toBeLessThan(2 * limit);
    }),
  );
});
