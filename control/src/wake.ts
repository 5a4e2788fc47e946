/**
 * A loop's doorbell. Ringing while nobody waits is remembered, so no wake-up is lost;
 * several rings before the next wait count as one.
 */
export interface Bell {
  ring(): void;
  /** Resolves when rung, after `timeoutMs`, or at once when `signal` is aborted. */
  wait(timeoutMs: number, signal: AbortSignal): Promise<void>;
}

export function createBell(): Bell {
  let rung = false;
  const waiting = new Set<() => void>();
  return {
    ring() {
      rung = true;
      for (const wake of waiting) wake();
    },
    wait(timeoutMs, signal) {
      if (rung || signal.aborted) {
        rung = false;
        return Promise.resolve();
      }
      return new Promise((resolve) => {
        const done = () => {
          rung = false;
          clearTimeout(timer);
          signal.removeEventListener("abort", done);
          waiting.delete(done);
          resolve();
        };
        const timer = setTimeout(done, timeoutMs);
        signal.addEventListener("abort", done);
        waiting.add(done);
      });
    },
  };
}

/** A loop that rests and is not rung for spends at most this share of the time on looking by itself. */
const idleShare = 0.05;
const idleMostMs = 30_000;
const restMostMs = 1_000;

/**
 * Runs `step` whenever the bell rings and at least every `periodMs`, until the signal; errors are reported and do not
 * end the loop.
 */
export async function runLoop(
  {
    bell,
    periodMs,
    restMs,
    signal,
    onError,
    onRound,
  }: {
    bell: Bell;
    periodMs: number;
    /**
     * How long the bell is left alone after a round, at least; as long as the round took when that is longer, up to a
     * second; and `periodMs` is longer when rounds are long. What rings meanwhile is one round. For rounds that look at
     * everything while much changes. By default they follow one another.
     */
    restMs?: number;
    signal: AbortSignal;
    onError: (error: unknown) => void;
    /** Hears of every round, however it ended. */
    onRound?: (durationMs: number, outcome: "ok" | "failed") => void;
  },
  step: () => Promise<void>,
): Promise<void> {
  let failures = 0;
  while (!signal.aborted) {
    const startedAtMs = performance.now();
    try {
      await step();
      failures = 0;
      onRound?.(performance.now() - startedAtMs, "ok");
    } catch (error) {
      if (signal.aborted) return;
      failures += 1;
      onRound?.(performance.now() - startedAtMs, "failed");
      onError(error);
    }
    const tookMs = performance.now() - startedAtMs;
    // After errors the bell is left alone for a moment, or a broken store would be asked in a tight loop.
    if (failures > 0) {
      await createBell().wait(Math.min(100 * 2 ** failures, 5_000), signal);
      continue;
    }
    if (restMs === undefined) {
      await bell.wait(periodMs, signal);
      continue;
    }
    await createBell().wait(Math.max(restMs, Math.min(tookMs, restMostMs)), signal);
    await bell.wait(Math.max(periodMs, Math.min(tookMs / idleShare, idleMostMs)), signal);
  }
}
