/** How far two clocks may differ in rate: the holder's end of a lease comes this much before the grantor's. */
const clockRateTolerance = 0.01;

/** What the holder of a lease knows, in milliseconds of its own monotonic clock. */
export interface Validity {
  readonly ttlMs: number;
  /** The lease holds before this moment. */
  readonly untilMs: number;
  /** When the keep-alive that is not yet answered was sent; null when none is. */
  readonly askedAtMs: number | null;
  /** Not before this moment the next keep-alive is sent. */
  readonly nextAskMs: number;
}

/** What to do with a lease now. `reopen`: the stream did not answer in time; use a new one. */
export type LeaseAction = "lost" | "reopen" | "ask" | "wait";

/**
 * The end of a lease that was granted, or kept alive, by a request sent at `sentAtMs`. The server counts from
 * the later moment at which it received that request, so it can only end the lease later.
 */
export const validUntilMs = (sentAtMs: number, ttlMs: number): number => sentAtMs + ttlMs * (1 - clockRateTolerance);

const askEveryMs = (ttlMs: number) => ttlMs / 3;
const answerWithinMs = (ttlMs: number) => ttlMs / 4;
const askAgainAfterMs = (ttlMs: number) => ttlMs / 20;

/**
 * In how many milliseconds to look again: often enough to notice that time jumped (the machine was suspended),
 * and exactly at the end.
 */
export const checkInMs = ({ ttlMs, untilMs }: Validity, nowMs: number): number =>
  Math.max(1, Math.min(250, ttlMs / 40, untilMs - nowMs));

/** A lease granted by a request sent at `sentAtMs`. */
export function granted(sentAtMs: number, ttlMs: number): Validity {
  const nextAskMs = sentAtMs + askEveryMs(ttlMs);
  return { ttlMs, untilMs: validUntilMs(sentAtMs, ttlMs), askedAtMs: null, nextAskMs };
}

/** What is due at `nowMs`. A lease past its end stays lost, whatever arrives later. */
export function leaseAction({ ttlMs, untilMs, askedAtMs, nextAskMs }: Validity, nowMs: number): LeaseAction {
  if (nowMs >= untilMs) return "lost";
  if (askedAtMs !== null) return nowMs - askedAtMs >= answerWithinMs(ttlMs) ? "reopen" : "wait";
  return nowMs >= nextAskMs ? "ask" : "wait";
}

export const asked = (validity: Validity, nowMs: number): Validity => ({ ...validity, askedAtMs: nowMs });

/** After the stream broke: nothing is on its way, and the next attempt is soon. */
export const disconnected = (validity: Validity, nowMs: number): Validity => ({
  ...validity,
  askedAtMs: null,
  nextAskMs: nowMs + askAgainAfterMs(validity.ttlMs),
});

/**
 * After the answer to the outstanding keep-alive, with the server's time to live; null when the lease is lost:
 * the server no longer knows it (`ttlSeconds` is 0), or the answer came after the end.
 */
export function answered(validity: Validity, ttlSeconds: bigint, nowMs: number): Validity | null {
  if (ttlSeconds <= 0n || nowMs >= validity.untilMs) return null;
  if (validity.askedAtMs === null) return validity;
  const ttlMs = Math.min(validity.ttlMs, Number(ttlSeconds) * 1000);
  return granted(validity.askedAtMs, ttlMs);
}
