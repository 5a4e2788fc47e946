import { afterEach, expect, test, vi } from "vitest";
import { steadyDates } from "./clock.ts";
import { systemClock } from "./system.ts";

afterEach(() => {
  vi.useRealTimers();
});

test.each([-3_600_000, 3_600_000])("setting the system's clock by %i ms makes nothing older or younger", (byMs) => {
  vi.useFakeTimers({ toFake: ["Date"] });
  const now = steadyDates(systemClock);
  const before = now();
  expect(Math.abs(before.getTime() - Date.now())).toBeLessThan(10_000);
  vi.setSystemTime(Date.now() + byMs);
  const passedMs = now().getTime() - before.getTime();
  expect(passedMs).toBeGreaterThanOrEqual(0);
  expect(passedMs).toBeLessThan(10_000);
});

test("what was put off and then called off does not happen", async () => {
  const happened: string[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  systemClock.after(1, () => happened.push("called off"))[Symbol.dispose]();
  systemClock.after(1, () => {
    happened.push("due");
    resolve();
  });
  await promise;
  expect(happened).toEqual(["due"]);
});

test("a signal aborts in time, with an error that says so", async () => {
  const signal = systemClock.abortAfter(1);
  await new Promise((resolve) => signal.addEventListener("abort", resolve));
  expect(signal.reason).toMatchObject({ name: "TimeoutError" });
});

test("the time since boot only grows", () => {
  const times = Array.from({ length: 1_000 }, systemClock.bootMs);
  expect(times).toEqual(times.toSorted((a, b) => a - b));
});
