/** An image as the journal remembers it: by digest, or by the tag of a build that has not come to its end. */
export interface KnownImage {
  reference: string;
  /** The project that it was used for. */
  owner: string;
  usedAtMs: number;
}

export interface KeepFacts {
  known: readonly KnownImage[];
  /** What placements, runs and builds of this node need. */
  inUse: ReadonlySet<string>;
  /** Projects that do not exist any more. */
  gone: ReadonlySet<string>;
  /** How many of a project's images stay for a rollback. */
  kept: number;
  nowMs: number;
}

const recentMs = 24 * 60 * 60 * 1000;
/** Whoever fetched it a moment ago may be about to use it. */
const justNowMs = 10 * 60 * 1000;

/**
 * References that may be removed, the one unused for the longest time first: used by nothing now, not lately, and
 * not among the newest `kept` of their project, to which a rollback may go back. Of projects that are gone, and of
 * builds that were broken off, nothing stays that is not in use.
 */
export function uselessImages({ known, inUse, gone, kept, nowMs }: KeepFacts): string[] {
  const newest = new Map<string, number>();
  const wanted = new Set(inUse);
  for (const { reference, owner, usedAtMs } of [...known].sort((a, b) => b.usedAtMs - a.usedAtMs)) {
    if (gone.has(owner) || !isPinned(reference)) continue;
    const rank = newest.get(owner) ?? 0;
    newest.set(owner, rank + 1);
    if (rank < kept || nowMs - usedAtMs < recentMs) wanted.add(reference);
  }
  return oldestFirst(known).filter((reference) => !wanted.has(reference));
}

/**
 * What may go to make room when the disk is almost full, in this order: everything that is not in use, rollback
 * targets included, since the registry has those as well. Only what was used a moment ago stays.
 */
export const spareImages = ({ known, inUse, gone, nowMs }: Omit<KeepFacts, "kept">): string[] => {
  const fresh = known.filter(({ owner, usedAtMs }) => !gone.has(owner) && nowMs - usedAtMs < justNowMs);
  const wanted = new Set([...inUse, ...fresh.map(({ reference }) => reference)]);
  return oldestFirst(known).filter((reference) => !wanted.has(reference));
};

/** Each reference once, by its latest use. */
function oldestFirst(known: readonly KnownImage[]): string[] {
  const usedAt = new Map<string, number>();
  for (const { reference, usedAtMs } of known) usedAt.set(reference, Math.max(usedAtMs, usedAt.get(reference) ?? 0));
  return [...usedAt].sort(([a, x], [b, y]) => x - y || (a < b ? -1 : 1)).map(([reference]) => reference);
}

const isPinned = (reference: string): boolean => reference.includes("@");
