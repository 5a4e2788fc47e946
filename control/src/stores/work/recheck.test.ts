import { expect, test } from "vitest";
import { recheckAfterMs } from "./recheck.ts";

test.each([
  { waitedMs: 0, afterMs: 500 },
  { waitedMs: 2_000, afterMs: 500 },
  { waitedMs: 4_001, afterMs: 1_000 },
  { waitedMs: 30_000, afterMs: 7_500 },
  { waitedMs: 60_000, afterMs: 15_000 },
  { waitedMs: 86_400_000, afterMs: 15_000 },
  // Another server's clock may be ahead of this one's.
  { waitedMs: -10_000, afterMs: 500 },
])("after $waitedMs ms of waiting, in $afterMs ms", ({ waitedMs, afterMs }) => {
  expect(recheckAfterMs(waitedMs)).toBe(afterMs);
});

test("an hour's wait takes a few hundred looks, not thousands", () => {
  let looks = 0;
  for (let waitedMs = 0; waitedMs < 3_600_000; waitedMs += recheckAfterMs(waitedMs)) looks += 1;
  expect(looks).toBeLessThan(300);
});
