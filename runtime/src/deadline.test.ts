import { expect, test } from "vitest";
import { within } from "./deadline.ts";
import { createManualClock } from "./testing/manual-clock.ts";

const never = new Promise<string>(() => {});

test("work that ends in time gives what it gives, and leaves no timer", async () => {
  const clock = createManualClock();
  expect(await within(clock, 10, Promise.resolve("done"), () => null)).toBe("done");
  await expect(within(clock, 10, Promise.reject(new Error("failed")), () => null)).rejects.toThrow("failed");
  expect(clock.pending).toBe(0);
});

test("late work gives what stands for it, or fails as told", async () => {
  const clock = createManualClock();
  const instead = within(clock, 10, never, () => null);
  const failing = within(clock, 10, never, () => {
    throw new Error("too late");
  });
  const outcome = expect(failing).rejects.toThrow("too late");
  await clock.advance(10);
  expect(await instead).toBeNull();
  await outcome;
});
