import { expect, test } from "vitest";
import { every } from "./clock.ts";
import { runLoop } from "./loop.ts";
import { sleep } from "./sleep.ts";
import { createManualClock } from "./testing/manual-clock.ts";
import { createWake } from "./wake.ts";

const nothing = (): void => {};

/** Runs a loop for `forMs` while it is signalled every few ms; returns when each round began. */
async function roundsWhileSignalled(forMs: number, options: { restMs?: number; tookMs?: number }): Promise<number[]> {
  const { tookMs = 0, ...rest } = options;
  const clock = createManualClock();
  const wake = createWake(clock);
  const stop = new AbortController();
  const rounds: number[] = [];
  using _ = every(clock, 2, wake.signal);
  clock.after(forMs, () => stop.abort());
  const each = { ...rest, clock, wake, periodMs: 60_000, signal: stop.signal, onError: nothing };
  const loop = runLoop(each, async () => {
    rounds.push(clock.steadyMs());
    if (tookMs > 0) await sleep(clock, tookMs);
  });
  // The round that is under way at the end comes to its own.
  await clock.advance(forMs + tookMs);
  await loop;
  return rounds;
}

const gaps = (times: readonly number[]) => times.slice(1).map((at, index) => at - (times[index] ?? 0));

test("rounds that look at everything leave a pause, however often it is signalled", async () => {
  const rounds = await roundsWhileSignalled(400, { restMs: 50 });
  expect(rounds.length).toBeGreaterThan(2);
  for (const gap of gaps(rounds)) expect(gap).toBeGreaterThanOrEqual(50);
});

test("the pause is as long as the round took", async () => {
  const rounds = await roundsWhileSignalled(600, { restMs: 1, tookMs: 60 });
  expect(rounds.length).toBeGreaterThan(1);
  for (const gap of gaps(rounds)) expect(gap).toBeGreaterThanOrEqual(120);
});

test("without one they follow one another", async () => {
  const rounds = await roundsWhileSignalled(300, {});
  expect(Math.max(...gaps(rounds))).toBeLessThanOrEqual(2);
});

test("a signal during the pause is not lost", async () => {
  const clock = createManualClock();
  const wake = createWake(clock);
  const stop = new AbortController();
  let rounds = 0;
  const each = { clock, wake, periodMs: 60_000, restMs: 30, signal: stop.signal, onError: nothing };
  const loop = runLoop(each, async () => {
    rounds += 1;
    if (rounds === 2) stop.abort();
  });
  clock.after(5, wake.signal);
  await clock.advance(5_000);
  expect(rounds).toBe(2);
  await loop;
});

test("a round that fails is told, and the next comes by itself, later each time", async () => {
  const clock = createManualClock();
  const stop = new AbortController();
  const starts: number[] = [];
  const told: unknown[] = [];
  const each = { clock, wake: createWake(clock), periodMs: 60_000, signal: stop.signal };
  const loop = runLoop({ ...each, onError: (error) => told.push(error) }, async () => {
    starts.push(clock.steadyMs());
    throw new Error(`round ${starts.length}`);
  });
  await clock.advance(1_500);
  stop.abort();
  await loop;
  expect(gaps(starts)).toEqual([200, 400, 800]);
  expect(told).toHaveLength(4);
});

test("a wait tells whether there was a signal, and takes it", async () => {
  const clock = createManualClock();
  const wake = createWake(clock);
  const { signal } = new AbortController();
  wake.signal();
  wake.signal();
  expect(await wake.wait(10, signal)).toBe(true);
  const late = wake.wait(10, signal);
  await clock.advance(10);
  expect(await late).toBe(false);
  expect(await wake.wait(10, AbortSignal.abort())).toBe(false);
  expect(clock.pending).toBe(0);
});
