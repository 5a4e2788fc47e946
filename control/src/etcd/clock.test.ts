import { afterEach, expect, test, vi } from "vitest";
import { createSteadyClock } from "./clock.ts";

afterEach(() => {
  vi.useRealTimers();
});

test.each([-3_600_000, 3_600_000])("setting the system's clock by %i ms makes nothing older or younger", (byMs) => {
  vi.useFakeTimers({ toFake: ["Date"] });
  const now = createSteadyClock();
  const before = now();
  expect(Math.abs(before.getTime() - Date.now())).toBeLessThan(10_000);
  vi.setSystemTime(Date.now() + byMs);
  const passedMs = now().getTime() - before.getTime();
  expect(passedMs).toBeGreaterThanOrEqual(0);
  expect(passedMs).toBeLessThan(10_000);
});
