import { expect, test } from "vitest";
import { createPaceMeter } from "./pace.ts";

/** In which sample the meter first said "too slow"; null when it never did. */
function firstSlow(arrivals: readonly (number | "busy")[]): number | null {
  const isTooSlow = createPaceMeter({ bytesPerSecondMin: 10_240, windowMs: 30_000 });
  let total = 0;
  for (const [at, arrived] of arrivals.entries()) {
    if (arrived !== "busy") total += arrived;
    if (isTooSlow(total, arrived !== "busy")) return at;
  }
  return null;
}

const times = (count: number, value: number | "busy") => Array<number | "busy">(count).fill(value);
/** What one of ten samples of 30 seconds has to bring. */
const enough = 30_720;

test.each<{ when: string; arrivals: (number | "busy")[]; at: number | null }>([
  { when: "a byte per second", arrivals: times(20, 3), at: 10 },
  { when: "exactly the least", arrivals: times(100, enough), at: null },
  { when: "one byte less than the least", arrivals: times(100, enough - 1), at: 10 },
  { when: "nothing for a window after a good beginning", arrivals: [...times(50, enough), ...times(10, 0)], at: 50 },
  { when: "all of a window in its last sample", arrivals: [0, ...times(9, 0), enough * 10, 0], at: null },
  {
    when: "a store that takes minutes for what it got",
    arrivals: [...times(5, enough), ...times(100, "busy")],
    at: null,
  },
  { when: "silence after such a wait", arrivals: [...times(100, "busy"), ...times(20, 0)], at: 110 },
])("$when", ({ arrivals, at }) => {
  expect(firstSlow(arrivals)).toBe(at);
});
