import { expect, test } from "vitest";
import { createManualClock } from "./testing/manual-clock.ts";
import { createWake } from "./wake.ts";

const never = new AbortController().signal;

test("a signal that was given before anybody waited is not lost, and is taken once", async () => {
  const clock = createManualClock();
  const wake = createWake(clock);
  wake.signal();
  wake.signal();
  expect(await wake.wait(60_000, never)).toBe(true);
  const again = wake.wait(1, never);
  await clock.advance(1);
  expect(await again).toBe(false);
  const waiting = wake.wait(60_000, never);
  wake.signal();
  expect(await waiting).toBe(true);
});

test("a wait ends with its stop, and leaves no timer", async () => {
  const clock = createManualClock();
  const stop = new AbortController();
  const waiting = createWake(clock).wait(60_000, stop.signal);
  stop.abort();
  expect(await waiting).toBe(false);
  expect(clock.pending).toBe(0);
});
