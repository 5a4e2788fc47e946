import type { Clock } from "./clock.ts";
import { pause } from "./sleep.ts";
import type { Wake } from "./wake.ts";

/** A loop that rests and is not woken spends at most this share of the time on looking by itself. */
const idleShare = 0.05;
const idleMostMs = 30_000;
const restMostMs = 1_000;

export interface LoopOptions {
  clock: Clock;
  wake: Wake;
  periodMs: number;
  /**
   * How long signals are left alone after a round, at least; as long as the round took when that is longer, up to a
   * second; and `periodMs` is longer when rounds are long. What is signalled meanwhile is one round. For rounds that look
   * at everything while much changes. By default they follow one another.
   */
  restMs?: number;
  /** Ends the loop. */
  signal: AbortSignal;
  onError: (error: unknown) => void;
  /** Hears of every round, however it ended. */
  onRound?: (durationMs: number, outcome: "ok" | "failed") => void;
}

/**
 * Runs `step` whenever it is woken and at least every `periodMs`, until the signal; errors are reported and do not end
 * the loop.
 */
export async function runLoop(options: LoopOptions, step: () => Promise<void>): Promise<void> {
  const { clock, wake, periodMs, restMs, signal, onError, onRound } = options;
  let failures = 0;
  while (!signal.aborted) {
    const startedAtMs = clock.steadyMs();
    const tookMs = (): number => clock.steadyMs() - startedAtMs;
    try {
      await step();
      failures = 0;
      onRound?.(tookMs(), "ok");
    } catch (error) {
      if (signal.aborted) return;
      failures += 1;
      onRound?.(tookMs(), "failed");
      onError(error);
    }
    // After errors signals are left alone for a moment, or a broken store would be asked in a tight loop.
    if (failures > 0) {
      await pause(clock, Math.min(100 * 2 ** failures, 5_000), signal);
      continue;
    }
    if (restMs === undefined) {
      await wake.wait(periodMs, signal);
      continue;
    }
    const roundMs = tookMs();
    await pause(clock, Math.max(restMs, Math.min(roundMs, restMostMs)), signal);
    await wake.wait(Math.max(periodMs, Math.min(roundMs / idleShare, idleMostMs)), signal);
  }
}
