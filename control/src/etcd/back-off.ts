/** Bounds of a growing delay. */
export interface BackOff {
  readonly firstMs: number;
  readonly maxMs: number;
}

/**
 * The delay before the next attempt after `failures` failures in a row (1 or more): anywhere between
 * nothing and a bound that doubles each time, so that clients that failed together do not return together.
 *
 * @param random from 0 to 1.
 */
export const backOffMs = (failures: number, { firstMs, maxMs }: BackOff, random: number): number =>
  Math.min(maxMs, firstMs * 2 ** Math.min(failures - 1, 30)) * random;
