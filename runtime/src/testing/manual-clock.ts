import type { Clock, Timer } from "../clock.ts";

/** A clock that stands still until a test moves it. */
export interface ManualClock extends Clock {
  /** Lets `ms` pass: what falls due happens in its order, and whatever it wakes gets its turn in between. */
  advance(ms: number): Promise<void>;
  /** As if the machine had been suspended: dates and `bootMs` go on, `steadyMs` does not, and nothing falls due. */
  suspend(ms: number): void;
  /** As if somebody had set the system's time. */
  setBy(ms: number): void;
  /** Timers that are not due yet. */
  readonly pending: number;
}

/** @param start what its dates begin with */
export function createManualClock(start = new Date("2030-01-01T00:00:00Z")): ManualClock {
  let steadyMs = 1_000;
  let suspendedMs = 0;
  let wallOffsetMs = start.getTime() - steadyMs;
  let timers: { dueMs: number; run: () => void }[] = [];

  /** Promises that are settled now, and those that these settle, get their turn. */
  const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

  const after = (ms: number, run: () => void): Timer => {
    const entry = { dueMs: steadyMs + Math.max(0, ms), run };
    timers.push(entry);
    const timer: Timer = {
      unref: () => timer,
      [Symbol.dispose]() {
        timers = timers.filter((each) => each !== entry);
      },
    };
    return timer;
  };

  return {
    now: () => new Date(wallOffsetMs + steadyMs + suspendedMs),
    steadyMs: () => steadyMs,
    bootMs: () => steadyMs + suspendedMs,
    after,
    soon: (run) => void after(0, run),
    abortAfter(ms) {
      const controller = new AbortController();
      after(ms, () => controller.abort(new DOMException("The operation was aborted due to timeout", "TimeoutError")));
      return controller.signal;
    },
    async advance(ms) {
      const untilMs = steadyMs + ms;
      await settle();
      for (;;) {
        const [first] = timers.filter(({ dueMs }) => dueMs <= untilMs).sort((a, b) => a.dueMs - b.dueMs);
        if (first === undefined) break;
        timers = timers.filter((each) => each !== first);
        steadyMs = Math.max(steadyMs, first.dueMs);
        first.run();
        await settle();
      }
      steadyMs = untilMs;
    },
    suspend(ms) {
      suspendedMs += ms;
    },
    setBy(ms) {
      wallOffsetMs += ms;
    },
    get pending() {
      return timers.length;
    },
  };
}
