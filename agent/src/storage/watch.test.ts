import { expect, test } from "vitest";
import { pauseMs } from "./watch.ts";

test.each([
  { tookMs: 0, pause: 5_000 },
  { tookMs: 500, pause: 5_000 },
  { tookMs: 1_000, pause: 9_000 },
  { tookMs: 60_000, pause: 540_000 },
])("a look of $tookMs ms is followed by a pause of $pause ms", ({ tookMs, pause }) => {
  expect(pauseMs(tookMs, 5_000)).toBeCloseTo(pause);
});
