import type { Clock } from "@svc/runtime/clock";
import { ImageRefused } from "./failures.ts";

/** A time that parts of one piece of work share; what passes between them does not count. */
export interface Budget {
  /** Does a part of the work within what is left of the time. Throws ImageRefused when that runs out. */
  within<T>(work: (stop: AbortSignal) => Promise<T>): Promise<T>;
}

export function createBudget(clock: Clock, limitMs: number, signal: AbortSignal): Budget {
  let leftMs = limitMs;
  return {
    async within(work) {
      const startedAtMs = clock.steadyMs();
      const deadline = clock.abortAfter(leftMs);
      try {
        return await work(AbortSignal.any([signal, deadline]));
      } catch (error) {
        if (deadline.aborted && !signal.aborted)
          throw new ImageRefused({ code: "OCI_PULL_TIMEOUT", message: "" }, { cause: error });
        throw error;
      } finally {
        leftMs -= clock.steadyMs() - startedAtMs;
      }
    },
  };
}
