import { LeaderOutdated } from "../cluster/fenced.ts";
import type { MemoryTransaction, Transact } from "./tables.ts";

/** As `raiseFence` of `fleet/cluster/fenced.ts`. @throws LeaderOutdated */
export const raiseMemoryFence = (transact: Transact, epoch: bigint): Promise<void> =>
  transact(({ tables }) => {
    if (tables.leaderFence > epoch) throw new LeaderOutdated("a newer leader is at work");
    tables.leaderFence = epoch;
  });

/** As `inFencedTransaction` there. @throws LeaderOutdated */
export const inFencedMemory = <T>(transact: Transact, epoch: bigint, work: (tx: MemoryTransaction) => T): Promise<T> =>
  transact((tx) => {
    if (tx.tables.leaderFence !== epoch) throw new LeaderOutdated("another leader is at work");
    return work(tx);
  });
