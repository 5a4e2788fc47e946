const FIRST_CEILING_MS = 100;
const LAST_CEILING_MS = 8_000;

/**
 * Full-jitter delay before attempt `attempt` (0 is the first retry): anything below a ceiling
 * that doubles from 100 ms to `lastCeilingMs`. Full jitter spreads a fleet that lost its server at one
 * instant over the whole window.
 *
 * @param random in [0, 1)
 */
export function backoffMs(attempt: number, random: number, lastCeilingMs = LAST_CEILING_MS): number {
  const ceilingMs = Math.min(lastCeilingMs, FIRST_CEILING_MS * 2 ** Math.min(attempt, 30));
  return Math.floor(ceilingMs * random);
}
