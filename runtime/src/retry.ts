import type { Clock } from "./clock.ts";
import type { Random } from "./random.ts";
import { sleep } from "./sleep.ts";

/** Bounds of a growing delay. */
export interface BackOff {
  readonly firstMs: number;
  readonly maxMs: number;
}

/**
 * The delay before the next attempt after `failures` failures in a row (1 or more): anywhere between nothing and a bound
 * that doubles each time (full jitter), so that clients that failed together do not return together.
 *
 * @param random from 0 up to 1
 */
export const backOffMs = (failures: number, { firstMs, maxMs }: BackOff, random: number): number =>
  Math.min(maxMs, firstMs * 2 ** Math.min(failures - 1, 30)) * random;

export interface RetryOptions {
  clock: Clock;
  random: Random;
  backOff: BackOff;
  /** Ends it: what is under way hears of it, and no attempt follows. */
  signal: AbortSignal;
  /** Attempts altogether; the last failure is thrown. By default only the signal bounds them. */
  attempts?: number;
  /** Whether another attempt may help; by default always. What it says no to is thrown. */
  mayHelp?: (error: unknown) => boolean;
  /** Hears of every failure that another attempt follows. */
  onFailure?: (error: unknown, failures: number, pauseMs: number) => void;
}

/** Tries until it succeeds. Throws the reason of the signal when that aborts first. */
export async function retry<T>(options: RetryOptions, attempt: (failures: number) => Promise<T>): Promise<T> {
  const { clock, random, backOff, signal, attempts = Number.POSITIVE_INFINITY, mayHelp, onFailure } = options;
  for (let failures = 0; ; ) {
    signal.throwIfAborted();
    try {
      return await attempt(failures);
    } catch (error) {
      failures += 1;
      if (signal.aborted || failures >= attempts || mayHelp?.(error) === false) throw error;
      const pauseMs = backOffMs(failures, backOff, random.next());
      onFailure?.(error, failures, pauseMs);
      await sleep(clock, pauseMs, signal);
    }
  }
}
