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

/** Runs `step` whenever the bell rings and at least every `periodMs`, until the signal; errors are reported and do not end the loop. */
export async function runLoop(
  {
    bell,
    periodMs,
    signal,
    onError,
  }: { bell: Bell; periodMs: number; signal: AbortSignal; onError: (error: unknown) => void },
  step: () => Promise<void>,
): Promise<void> {
  let failures = 0;
  while (!signal.aborted) {
    try {
      await step();
      failures = 0;
    } catch (error) {
      if (signal.aborted) return;
      failures += 1;
      onError(error);
    }
    // After errors the bell is left alone for a moment, or a broken store would be asked in a tight loop.
    if (failures > 0) await createBell().wait(Math.min(100 * 2 ** failures, 5_000), signal);
    else await bell.wait(periodMs, signal);
  }
}
