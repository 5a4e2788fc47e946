import { LeaderOutdated } from "../cluster/fenced.ts";
import type { MemoryTables, MemoryTransaction, Transact } from "./tables.ts";

/** As `raiseFence` of `fleet/cluster/fenced.ts`. @throws LeaderOutdated */
export const raiseMemoryFence = (transact: Transact, epoch: bigint): Promise<void> =>
  transact(({ tables }) => {
    if (tables.leaderFence > epoch) throw new LeaderOutdated("a newer leader is at work");
    tables.leaderFence = epoch;
  });

/** As `inFencedTransaction` there. @throws LeaderOutdated */
export const inFencedMemory = <T, Tables extends MemoryTables = MemoryTables>(
  transact: Transact<Tables>,
  epoch: bigint,
  work: (tx: MemoryTransaction<Tables>) => T,
): Promise<T> =>
  transact((tx) => {
    if (tx.tables.leaderFence !== epoch) throw new LeaderOutdated("another leader is at work");
    return work(tx);
  });
