import { systemClock } from "@svc/runtime/system";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createLog } from "../../log.ts";
import { clockOffset, followDatabaseClock } from "./clock.ts";
import { type TestDatabase, testDatabase } from "./testing.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await testDatabase();
});
afterAll(() => database?.[Symbol.asyncDispose]());

/** What is found with a clock that is `aheadMs` ahead, when the answer takes `tookMs` longer than it does. */
function offsetBy(aheadMs: number, tookMs: number) {
  let readings = 0;
  const now = () => {
    readings += 1;
    return new Date(Date.now() + aheadMs + (readings === 1 ? 0 : tookMs));
  };
  return clockOffset({ ...systemClock, now }, database.db);
}

test("a database that is slow to answer does not make a clock wrong that is right", async () => {
  const { offsetMs, withinMs } = await offsetBy(0, 9_000);
  expect(offsetMs).toBeCloseTo(0);
  expect(withinMs).toBeGreaterThanOrEqual(4_500);
});

test("a clock is off by as much as is sure", async () => {
  const ahead = await offsetBy(60_000, 9_000);
  expect(ahead.offsetMs).toBeGreaterThan(30_000);
  expect(ahead.offsetMs).toBeLessThanOrEqual(60_000);
  const behind = await offsetBy(-60_000, 9_000);
  expect(behind.offsetMs).toBeGreaterThanOrEqual(-60_000);
  expect(behind.offsetMs).toBeLessThan(-30_000);
});

test.each([3_600_000, -3_600_000])(
  "dates of a replica are the database's, whose own clock is %d ms off or set",
  async (offMs) => {
    let aheadMs = offMs;
    const machine = { ...systemClock, now: () => new Date(Date.now() + aheadMs) };
    using followed = await followDatabaseClock(machine, database.db, createLog("silent"));
    const aheadOfMs = () => Math.abs(followed.clock.now().getTime() - Date.now());
    expect(aheadOfMs()).toBeLessThan(60_000);
    aheadMs = -offMs;
    expect(aheadOfMs()).toBeLessThan(60_000);
    await followed.read();
    expect(aheadOfMs()).toBeLessThan(60_000);
  },
);
