import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createBell, runLoop } from "./wake.ts";

// A machine that stands still for half a second would leave out rounds.
beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** Runs a loop for `forMs` while its bell rings every few ms; returns when each round began. */
async function roundsWhileRinging(forMs: number, options: { restMs?: number; tookMs?: number }): Promise<number[]> {
  const { tookMs = 0, ...rest } = options;
  const bell = createBell();
  const stop = new AbortController();
  const startedAt = performance.now();
  const rounds: number[] = [];
  setInterval(bell.ring, 2);
  setTimeout(() => stop.abort(), forMs);
  const loop = runLoop({ ...rest, bell, periodMs: 60_000, signal: stop.signal, onError: () => {} }, async () => {
    rounds.push(performance.now() - startedAt);
    if (tookMs > 0) await new Promise((resolve) => setTimeout(resolve, tookMs));
  });
  // The round that is under way at the end comes to its own.
  await vi.advanceTimersByTimeAsync(forMs + tookMs);
  await loop;
  return rounds;
}

const gaps = (times: readonly number[]) => times.slice(1).map((at, index) => at - (times[index] ?? 0));

test("rounds that look at everything leave a pause, however often it rings", async () => {
  const rounds = await roundsWhileRinging(400, { restMs: 50 });
  expect(rounds.length).toBeGreaterThan(2);
  for (const gap of gaps(rounds)) expect(gap).toBeGreaterThanOrEqual(49);
});

test("the pause is as long as the round took", async () => {
  const rounds = await roundsWhileRinging(600, { restMs: 1, tookMs: 60 });
  expect(rounds.length).toBeGreaterThan(1);
  for (const gap of gaps(rounds)) expect(gap).toBeGreaterThanOrEqual(118);
});

test("without one they follow one another", async () => {
  const rounds = await roundsWhileRinging(300, {});
  expect(Math.min(...gaps(rounds))).toBeLessThan(40);
});

test("a ring during the pause is not lost", async () => {
  const bell = createBell();
  const stop = new AbortController();
  let rounds = 0;
  const loop = runLoop({ bell, periodMs: 60_000, restMs: 30, signal: stop.signal, onError: () => {} }, async () => {
    rounds += 1;
    if (rounds === 2) stop.abort();
  });
  setTimeout(bell.ring, 5);
  await vi.advanceTimersByTimeAsync(5_000);
  expect(rounds).toBe(2);
  await loop;
});
