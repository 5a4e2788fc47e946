// @pure

/** A branch on a machine that is being emptied, and whose operator has its databases moved. */
export interface LeavingBranch {
  databaseId: string;
  nodeId: string;
  /** Or why it cannot move. */
  status: string;
  isChanging: boolean;
  /** Since its last move failed; null: none has. */
  failedMs: number | null;
}

/** How long a branch whose move failed is left alone. */
export const failedMoveMs = 600_000;

/**
 * Which branches begin to move: of each machine one at a time, so that copies do not wait for one another's disk. Those that failed
 * come last, the longest ago first, so that none keeps the others where they are.
 */
export function nextMoves(branches: readonly LeavingBranch[]): string[] {
  return [...Map.groupBy(branches, ({ nodeId }) => nodeId).values()].flatMap((own) => {
    if (own.some(({ isChanging }) => isChanging)) return [];
    const due = own
      .map(({ failedMs, ...branch }) => ({ ...branch, restedMs: failedMs ?? Number.MAX_VALUE }))
      .filter(({ status, restedMs }) => status === "ready" && restedMs >= failedMoveMs)
      .toSorted((a, b) => b.restedMs - a.restedMs)[0];
    return due === undefined ? [] : [due.databaseId];
  });
}
