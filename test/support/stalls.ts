import { performance } from "node:perf_hooks";

const lookEveryMs = 20;
/** Being late by less is the usual business of a machine that has something to do. */
const leastMs = 100;

/** How long this process stood still, and most likely its whole machine: whatever is timed here took so much less. */
export interface Stalls extends Disposable {
  /** Milliseconds since it was asked last. */
  take(): number;
}

export function watchStalls(): Stalls {
  let lookedAt = performance.now();
  let stoodStillMs = 0;
  const look = () => {
    const now = performance.now();
    const lateMs = now - lookedAt - lookEveryMs;
    if (lateMs >= leastMs) stoodStillMs += lateMs;
    lookedAt = now;
  };
  const looking = setInterval(look, lookEveryMs);
  return {
    take() {
      look();
      const taken = stoodStillMs;
      stoodStillMs = 0;
      return taken;
    },
    [Symbol.dispose]: () => clearInterval(looking),
  };
}
