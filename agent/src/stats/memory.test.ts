import { systemClock } from "@svc/runtime/system";
import { expect, test } from "vitest";
import { createLog } from "../log.ts";
import { createMemoryWatch, isMemoryShort, parseMemory, systemReserveMb } from "./memory.ts";

test.each([
  { when: "a tiny machine", totalMb: 1_000, reserve: 256 },
  { when: "a machine of 4 GB", totalMb: 3_900, reserve: 487 },
  { when: "a large machine", totalMb: 64_000, reserve: 2_048 },
])("the reserve of $when", ({ totalMb, reserve }) => {
  expect(systemReserveMb(totalMb)).toBe(reserve);
});

test.each([
  { when: "much is left", availableMb: 2_000, is: false },
  { when: "just the floor is left", availableMb: 250, is: false },
  { when: "less than the floor is left", availableMb: 249, is: true },
  { when: "a little more than the floor is left after it was short", before: true, availableMb: 374, is: true },
  { when: "enough is left after it was short", before: true, availableMb: 375, is: false },
  { when: "the operator's floor is met", availableMb: 100, set: 50, is: false },
  { when: "the operator wants none", availableMb: 0, set: 0, is: false },
])("when $when", ({ before = false, availableMb, set = null, is }) => {
  expect(isMemoryShort(before, { availableMb, totalMb: 4_000 }, set)).toBe(is);
});

test.each([
  { meminfo: "MemTotal:       4096000 kB\nMemFree:  1 kB\nMemAvailable:    2048000 kB\n", is: [4_000, 2_000] },
  { meminfo: "MemTotal:       4096000 kB\n", is: null },
  { meminfo: "", is: null },
])("reads what the kernel says: $is", ({ meminfo, is }) => {
  const memory = parseMemory(meminfo);
  expect(memory && [memory.totalMb, memory.availableMb]).toEqual(is);
});

test.each([
  { set: 0, short: false },
  { set: 1e12, short: true },
])("watches this machine: below $set MB is $short", async ({ set, short }) => {
  const stop = new AbortController();
  const watch = createMemoryWatch({ clock: systemClock, set, log: createLog("silent") });
  const watching = watch.watch(stop.signal);
  await expect.poll(() => watch.isShort()).toBe(short);
  stop.abort();
  await watching;
});
