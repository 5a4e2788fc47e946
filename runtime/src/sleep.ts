import type { Clock } from "./clock.ts";
import { onAbort } from "./on-abort.ts";

/** Waits `ms`, or until `signal` aborts, whichever comes first; never rejects. For loops that look at the signal themselves. */
export const pause = (clock: Clock, ms: number, signal: AbortSignal): Promise<void> =>
  sleep(clock, ms, signal).catch(() => {});

/** Waits `ms`. Rejects with the reason of `signal` when that aborts first. */
export function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const stop = (): void => {
      timer[Symbol.dispose]();
      reject(signal?.reason);
    };
    let leave: (() => void) | undefined;
    const timer = clock.after(ms, () => {
      leave?.();
      resolve();
    });
    leave = signal && onAbort(signal, stop);
  });
}
