import { randomUUID } from "node:crypto";
import { uptime } from "node:os";
import type { Clock, Timer } from "./clock.ts";
import type { Random } from "./random.ts";

/** Two clocks drift apart by less than this while the machine is awake (uptime may be told in coarse steps). */
const toleranceMs = 100;
/** The uptime is a call to the system, and some ask thousands of times in a row. */
const lookEveryMs = 5;

/** How far the uptime was ahead of the process's own clock when this one started. */
const startedMs = uptime() * 1000 - performance.now();
let suspendedMs = 0;
let lookedAtMs = Number.NEGATIVE_INFINITY;

/**
 * The monotonic clock stands still while the machine is suspended, the uptime does not: what the latter is ahead counts
 * as suspended time. After a suspension it may take `lookEveryMs` to notice, which is little beside what every lease has to
 * spare.
 */
function bootMs(): number {
  const monotonicMs = performance.now();
  if (monotonicMs - lookedAtMs >= lookEveryMs) {
    lookedAtMs = monotonicMs;
    const aheadMs = uptime() * 1000 - monotonicMs - startedMs;
    if (aheadMs - suspendedMs > toleranceMs) suspendedMs = aheadMs;
  }
  return startedMs + monotonicMs + suspendedMs;
}

/** A class, since a process has tens of thousands at once: functions of each one's own would be most of its size. */
class SystemTimer implements Timer {
  readonly #timeout: NodeJS.Timeout;

  constructor(ms: number, run: () => void) {
    this.#timeout = setTimeout(run, ms);
  }

  unref(): this {
    this.#timeout.unref();
    return this;
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timeout);
  }
}

/** The clock of the machine. Only what starts a program, and tests, may take it; everybody else is handed a `Clock`. */
export const systemClock: Clock = {
  now: () => new Date(),
  steadyMs: () => performance.now(),
  bootMs,
  after: (ms, run) => new SystemTimer(ms, run),
  soon: (run) => void setImmediate(run),
  abortAfter: (ms) => AbortSignal.timeout(Math.max(0, Math.round(ms))),
};

/** The chance of the machine; see `systemClock`. */
export const systemRandom: Random = { next: Math.random, uuid: randomUUID };
