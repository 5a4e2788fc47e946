import type { Clock } from "./clock.ts";
import { onAbort } from "./on-abort.ts";

/**
 * What wakes a loop. A signal that is given while nobody waits is remembered, so none is lost; several before the next
 * wait count as one.
 */
export interface Wake {
  signal(): void;
  /**
   * Resolves once signalled, after `timeoutMs`, or at once when `stop` is aborted. True: there was a signal, and it is taken
   * with this.
   */
  wait(timeoutMs: number, stop: AbortSignal): Promise<boolean>;
}

export function createWake(clock: Clock): Wake {
  let signalled = false;
  const waiting = new Set<() => void>();
  const take = (): boolean => {
    const taken = signalled;
    signalled = false;
    return taken;
  };
  return {
    signal() {
      signalled = true;
      for (const wake of waiting) wake();
    },
    async wait(timeoutMs, stop) {
      if (signalled || stop.aborted) return take();
      return new Promise((resolve) => {
        const done = (): void => {
          timer[Symbol.dispose]();
          leave();
          waiting.delete(done);
          resolve(take());
        };
        const timer = clock.after(timeoutMs, done);
        const leave = onAbort(stop, done);
        waiting.add(done);
      });
    },
  };
}
