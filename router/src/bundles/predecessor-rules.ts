// @pure
/** A bundle that a host served until another took its place. */
export interface Predecessor {
  /** Its name in the store. */
  bundle: string;
  /** Project and channel whose it was: a name may be given to somebody else. */
  owner: string;
  /** Until when its files are served, milliseconds since 1970. */
  untilMs: number;
}

/** What a host serves: whose it is, and its bundle, if it is a static site. */
export interface Occupant {
  owner: string;
  bundle: string | null;
}

/** Pages that a visitor opened before a deploy ask for files of that time for so long. */
const predecessorMs = 24 * 60 * 60_000;
/** So many deploys may follow one another within that time before files of the first are gone. */
export const predecessorsKept = 3;

/** Those of a host that now serves `next` in the place of `left`, the last one first. Null is nothing, or nothing known. */
export function predecessorsAfter(
  known: readonly Predecessor[],
  left: Occupant | null,
  next: Occupant | null,
  nowMs: number,
): Predecessor[] {
  if (next === null) return [];
  const { owner } = next;
  const kept = known.filter((each) => each.owner === owner && each.bundle !== next.bundle);
  const bundle = left?.owner === owner ? left.bundle : null;
  if (bundle === null || next.bundle === null || bundle === next.bundle) return kept;
  const others = kept.filter((each) => each.bundle !== bundle);
  return [{ bundle, owner, untilMs: nowMs + predecessorMs }, ...others].slice(0, predecessorsKept);
}
