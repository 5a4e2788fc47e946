import { ImageRefused } from "./failures.ts";

export interface Clock {
  /** Does a part of the work within what is left of the time. Throws ImageRefused when that runs out. */
  within<T>(work: (stop: AbortSignal) => Promise<T>): Promise<T>;
}

/** Parts of one piece of work share a time; what passes between them does not count. */
export function createClock(limitMs: number, signal: AbortSignal): Clock {
  let leftMs = limitMs;
  return {
    async within(work) {
      const startedAt = performance.now();
      const deadline = AbortSignal.timeout(Math.max(0, Math.round(leftMs)));
      try {
        return await work(AbortSignal.any([signal, deadline]));
      } catch (error) {
        if (deadline.aborted && !signal.aborted)
          throw new ImageRefused({ code: "OCI_PULL_TIMEOUT", message: "" }, { cause: error });
        throw error;
      } finally {
        leftMs -= performance.now() - startedAt;
      }
    },
  };
}
