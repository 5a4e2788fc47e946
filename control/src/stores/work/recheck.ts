// @pure
const firstMs = 500;
const longestMs = 15_000;

/**
 * In how many milliseconds work that waits for an edge or a node looks again, by how long it has waited: soon while
 * the end is near, and a quarter of the wait so far once whatever it waits for seems to be away. Many may wait for the
 * same machine, and together they must not keep the queue busy.
 */
export const recheckAfterMs = (waitedMs: number): number =>
  Math.round(Math.min(Math.max(waitedMs / 4, firstMs), longestMs));
