import { uptime } from "node:os";
import { setTimeout as delay } from "node:timers/promises";

/** Two clocks drift apart by less than this while the machine is awake (uptime may be told in coarse steps). */
const toleranceMs = 100;

let suspendedMs = 0;
let uptimeOffsetMs: number | null = null;

/**
 * Milliseconds that only grow, for lease arithmetic. The monotonic clock stands still while the machine
 * is suspended, the uptime does not: what the latter is ahead counts as suspended time. When in doubt
 * it runs ahead, which ends a lease early, never late.
 */
export function leaseClockMs(): number {
  const monotonicMs = performance.now();
  const aheadMs = uptime() * 1000 - monotonicMs;
  uptimeOffsetMs ??= aheadMs;
  if (aheadMs - uptimeOffsetMs - suspendedMs > toleranceMs) suspendedMs = aheadMs - uptimeOffsetMs;
  return monotonicMs + suspendedMs;
}

/** Waits `ms`, or until `signal` aborts, whichever comes first; never rejects. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await delay(ms, undefined, { signal }).catch(() => {});
}
