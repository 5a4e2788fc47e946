/** One user's requests as a window of a minute sees them. */
export interface RateWindow {
  /** In the minute before. */
  previous: number;
  /** In this minute so far. */
  current: number;
  /** Since this minute began. */
  elapsedMs: number;
}

export const windowMs = 60_000;

/**
 * Seconds until one more request fits into `limit` requests per minute; null when it does now. The minute before counts
 * as far as the last sixty seconds reach into it, as if its requests had come evenly, so that nobody gets twice the
 * limit around the turn of a minute.
 */
export function secondsToWait({ previous, current, elapsedMs }: RateWindow, limit: number): number | null {
  const room = limit - 1;
  // In whole numbers: a wait that ends when the last bit is off by one would tell to wait once more.
  if (previous * (windowMs - elapsedMs) + current * windowMs <= room * windowMs) return null;
  // Within this minute, as the one before moves out of sight; or within the next, as this one does.
  const [counted, left, turn] =
    current <= room ? [previous, room - current, windowMs] : [current, Math.max(0, room), 2 * windowMs];
  const atMs = turn - Math.floor((left * windowMs) / counted);
  return Math.max(1, Math.ceil((atMs - elapsedMs) / 1000));
}
