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
  if (previous * (1 - elapsedMs / windowMs) + current <= room) return null;
  // Within this minute, as the one before moves out of sight; or within the next, as this one does.
  const atMs =
    current <= room ? windowMs * (1 - (room - current) / previous) : windowMs * (2 - Math.max(0, room) / current);
  return Math.max(1, Math.ceil((atMs - elapsedMs) / 1000));
}
