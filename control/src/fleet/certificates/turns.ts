// @pure

/** A registered domain below which something is to be ordered, and whose names those are. */
export interface Turn {
  registeredDomain: string;
  /** Users; null: the platform itself, for the content domain. */
  ownerId: string | null;
}

/**
 * Whose orders are placed next: of each owner in turn one, beginning with those who had the fewest lately, so that nobody waits for the
 * thousand domains of somebody else.
 *
 * @param turns of each owner in the order in which they are due
 * @param placed orders that were placed lately, by owner
 * @param room how many may begin
 */
export function nextTurns(turns: readonly Turn[], placed: ReadonlyMap<string, number>, room: number): string[] {
  const count = new Map<string | null, number>();
  const ranked = turns.map(({ registeredDomain, ownerId }) => {
    const before = count.get(ownerId) ?? (ownerId === null ? 0 : (placed.get(ownerId) ?? 0));
    count.set(ownerId, before + 1);
    return { registeredDomain, rank: before };
  });
  // Sorting keeps the order of those that are equal.
  const inTurn = ranked.sort((a, b) => a.rank - b.rank).map(({ registeredDomain }) => registeredDomain);
  return [...new Set(inTurn)].slice(0, Math.max(0, room));
}
