import { uptime } from "node:os";
import { setTimeout as delay } from "node:timers/promises";

/** Two clocks drift apart by less than this while the machine is awake (uptime may be told in coarse steps). */
const toleranceMs = 100;
/** The uptime is a call to the system, and some ask thousands of times in a row. */
const lookEveryMs = 5;

let suspendedMs = 0;
let lookedAtMs = Number.NEGATIVE_INFINITY;
let uptimeOffsetMs: number | null = null;

/**
 * Milliseconds that only grow, for lease arithmetic. The monotonic clock stands still while the machine
 * is suspended, the uptime does not: what the latter is ahead counts as suspended time. When in doubt
 * it runs ahead, which ends a lease early, never late. After a suspension it may take `lookEveryMs` to notice, which is
 * little beside what every lease has to spare.
 */
export function leaseClockMs(): number {
  const monotonicMs = performance.now();
  if (monotonicMs - lookedAtMs < lookEveryMs) return monotonicMs + suspendedMs;
  lookedAtMs = monotonicMs;
  const aheadMs = uptime() * 1000 - monotonicMs;
  uptimeOffsetMs ??= aheadMs;
  if (aheadMs - uptimeOffsetMs - suspendedMs > toleranceMs) suspendedMs = aheadMs - uptimeOffsetMs;
  return monotonicMs + suspendedMs;
}

/** Waits `ms`, or until `signal` aborts, whichever comes first; never rejects. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await delay(ms, undefined, { signal }).catch(() => {});
}

/**
 * A clock for how long things last: what it tells begins as the system's time and goes on with `leaseClockMs`, so that
 * setting the system's clock makes nothing older or younger. Times of one clock are compared with one another only.
 */
export function createSteadyClock(): () => Date {
  const offsetMs = Date.now() - leaseClockMs();
  return () => new Date(offsetMs + leaseClockMs());
}
