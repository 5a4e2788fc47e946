/** An image as the journal remembers it. `owner` is the project it was used for. */
export type KnownImage = { reference: string; owner: string; usedAtMs: number };

const RECENT_MS = 24 * 60 * 60 * 1000;

/**
 * References that may be removed: used by nothing now, not lately, and not among the newest `kept` of their
 * project, to which a rollback may go back.
 */
export function uselessImages(
  known: readonly KnownImage[],
  inUse: ReadonlySet<string>,
  kept: number,
  nowMs: number,
): string[] {
  const newest = new Map<string, number>();
  const wanted = new Set(inUse);
  for (const { reference, owner, usedAtMs } of [...known].sort((a, b) => b.usedAtMs - a.usedAtMs)) {
    const rank = newest.get(owner) ?? 0;
    newest.set(owner, rank + 1);
    if (rank < kept || nowMs - usedAtMs < RECENT_MS) wanted.add(reference);
  }
  return [...new Set(known.map((image) => image.reference))].filter((reference) => !wanted.has(reference));
}
