// @pure
/** When the database's clock said what, as ms after the boot of this machine, give or take `withinMs`. */
export interface Reading {
  /** The database's time is the time since boot and this. */
  offsetMs: number;
  /** The answer may have taken so long on either of its ways. */
  withinMs: number;
}

/**
 * By how much the database's time is ahead of the time since boot, after another reading: what was believed, unless the reading
 * says that it cannot be so. An answer that was held up moves nothing.
 */
export const nextOffsetMs = (believedMs: number, { offsetMs, withinMs }: Reading): number =>
  Math.min(Math.max(believedMs, offsetMs - withinMs), offsetMs + withinMs);
