import { systemClock } from "@svc/runtime/system";
import pino from "pino";
import { expect, test } from "vitest";
import { offsetToTell } from "../cluster/clock-skew.ts";
import { createClockSkewWriter, estimateOffsetMs } from "./clock-skew.ts";

test.each([
  { when: "a clock that is right", offsets: [-3, -40, -2], estimate: -2 },
  { when: "renewals that were held up", offsets: [-4_000, -9_000, -12], estimate: -12 },
  { when: "a clock that was set forward", offsets: [-2, 60_000], estimate: 60_000 },
  { when: "a clock that was set back a minute ago", offsets: [90_000, ...Array(12).fill(-5)], estimate: -5 },
])("$when", ({ offsets, estimate }) => {
  expect(estimateOffsetMs(offsets)).toBe(estimate);
});

test.each([
  { when: "it is right, as it was", estimate: 400, told: null, tells: null },
  { when: "it goes wrong", estimate: -2_500.4, told: null, tells: -2_500 },
  { when: "it is as wrong as before, give or take", estimate: -3_000, told: -2_500, tells: -2_500 },
  { when: "it gets worse", estimate: -40_000, told: -2_500, tells: -40_000 },
  { when: "it is right again", estimate: 10, told: -2_500, tells: null },
])("when $when, etcd holds $tells", ({ estimate, told, tells }) => {
  expect(offsetToTell(estimate, told)).toBe(tells);
});

test("a clock that runs away is told of twice a minute, each time as it is then", async () => {
  const written: unknown[] = [];
  let atMs = 1_000_000;
  const note = createClockSkewWriter({
    daemonId: "n1",
    write: async (ops) => void written.push(...ops),
    everyMs: 30_000,
    clock: { ...systemClock, now: () => new Date(atMs), bootMs: () => atMs },
    log: pino({ level: "silent" }),
    signal: new AbortController().signal,
  });
  for (let renewal = 1; renewal <= 12; renewal += 1) {
    note.heard(BigInt(atMs + renewal * 2_000));
    atMs += 5_000;
    // Until what was written counts as written.
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(written).toEqual([
    { put: expect.objectContaining({ value: "2000" }) },
    { put: expect.objectContaining({ value: "14000" }) },
  ]);
});
