import { expect, test } from "vitest";
import { nextCrash, restlessPauseMs } from "./crash.ts";

test.each([
  { before: 0, ranForMs: 100, crashes: 1, delayMs: 0 },
  { before: 1, ranForMs: 100, crashes: 2, delayMs: 1_000 },
  { before: 2, ranForMs: 59_999, crashes: 3, delayMs: 2_000 },
  { before: 9, ranForMs: 100, crashes: 10, delayMs: 256_000 },
  { before: 9, ranForMs: 60_000, crashes: 1, delayMs: 0 },
])(
  "crash after $before others, having run $ranForMs ms: restart $delayMs ms after it",
  ({ before, ranForMs, crashes, delayMs }) => {
    expect(nextCrash(before, ranForMs, "t")).toEqual({ crashes, delayMs, countedExit: "t" });
  },
);

test.each([
  { before: 3, delayMs: 4_000 },
  { before: 4, delayMs: 5_000 },
  { before: 1_000, delayMs: 5_000 },
])("at a pace of at most 5 s, the crash after $before others is followed by a restart after $delayMs ms", (crash) => {
  const pace = { delayMsMax: 5_000, crashesMax: Number.POSITIVE_INFINITY };
  expect(nextCrash(crash.before, 100, "t", pace)?.delayMs).toBe(crash.delayMs);
});

test("the eleventh crash in a row is the end", () => {
  expect(nextCrash(10, 100, "t")).toBeNull();
});

test("after eight times without rest a step waits longer, and never longer than half a minute", () => {
  expect([0, 7, 8, 9, 10, 12, 13, 100].map(restlessPauseMs)).toEqual([
    0, 0, 1_000, 2_000, 4_000, 16_000, 30_000, 30_000,
  ]);
});
