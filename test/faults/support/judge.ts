// @pure

/** What a writer was told, in the order of ids. `atMs`: when it heard of it, by the clock of this machine. */
export interface Acknowledged {
  id: number;
  atMs: number;
}

/** A row that the database has; `seq` is what the engine counted it as. */
export interface Written {
  id: number;
  seq: number;
}

export interface Verdict {
  acknowledged: number;
  /** Rows that the database has though the writer never heard of them: it was cut off between the two. */
  unheard: number;
  /** Acknowledged, not later than what has to be there, and gone. */
  lost: number[];
  /** Acknowledged and gone because it came after what a copy covers. */
  after: number;
  /** Acknowledged and gone though something that was acknowledged later is there. */
  holes: number[];
  /** In the database more than once. */
  twice: number[];
  /** Acknowledged, and written after what was begun only later. */
  outOfOrder: number[];
  /** Between two acknowledgements. */
  longestPauseMs: number;
}

/** A verdict of which nothing can be held against the database. */
export const innocent = { lost: [], holes: [], twice: [], outOfOrder: [] } as const;

/**
 * Holds what a database has against what a writer was told, who writes one row after the other and never repeats an id.
 *
 * @param coveredAtMs everything that was acknowledged until then has to be there; null: everything that ever was
 */
export function judge(
  acknowledged: readonly Acknowledged[],
  rows: readonly Written[],
  coveredAtMs: number | null = null,
): Verdict {
  const seqs = new Map(rows.map(({ id, seq }) => [id, seq]));
  const counts = new Map<number, number>();
  for (const { id } of rows) counts.set(id, (counts.get(id) ?? 0) + 1);
  const gone = acknowledged.filter(({ id }) => !seqs.has(id));
  const isCovered = ({ atMs }: Acknowledged) => coveredAtMs === null || atMs <= coveredAtMs;
  const there = acknowledged.filter(({ id }) => seqs.has(id));
  const lastThere = there.at(-1)?.id ?? 0;
  const told = new Set(acknowledged.map(({ id }) => id));
  return {
    acknowledged: acknowledged.length,
    unheard: [...seqs.keys()].filter((id) => !told.has(id)).length,
    lost: gone.filter(isCovered).map(({ id }) => id),
    after: gone.filter((one) => !isCovered(one)).length,
    holes: gone.filter(({ id }) => id < lastThere).map(({ id }) => id),
    twice: [...counts].filter(([, count]) => count > 1).map(([id]) => id),
    outOfOrder: there
      .filter(({ id }, index) => index > 0 && (seqs.get(id) ?? 0) < (seqs.get(there[index - 1]?.id ?? 0) ?? 0))
      .map(({ id }) => id),
    longestPauseMs: acknowledged.reduce(
      (longest, { atMs }, index) => Math.max(longest, atMs - (acknowledged[index - 1]?.atMs ?? atMs)),
      0,
    ),
  };
}
