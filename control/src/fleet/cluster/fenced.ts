import type { Db } from "../../stores/db/pool.ts";

/** A later leader has written to Postgres: whoever decided as the leader before it has to stop. */
export class LeaderOutdated extends Error {
  override readonly name = "LeaderOutdated";
}

/**
 * The first thing that a leader does: from now on nothing that an earlier one decided is committed, and what one has
 * begun has ended. @throws LeaderOutdated
 */
export async function raiseFence(db: Db, epoch: bigint): Promise<void> {
  const { numUpdatedRows } = await db
    .updateTable("leader_fence")
    .set({ epoch: Number(epoch) })
    .where("epoch", "<=", Number(epoch))
    .executeTakeFirst();
  if (numUpdatedRows !== 1n) throw new LeaderOutdated("a newer leader is at work");
}

/**
 * Runs `work` unless the fence is another leader's; it stays as it is until the transaction ends. Transactions of one
 * leader do not wait for one another. @throws LeaderOutdated
 */
export async function inFencedTransaction<T>(db: Db, epoch: bigint, work: (tx: Db) => Promise<T>): Promise<T> {
  return await db.transaction().execute(async (tx) => {
    const fence = await tx.selectFrom("leader_fence").select("epoch").forShare().executeTakeFirstOrThrow();
    if (fence.epoch !== Number(epoch)) throw new LeaderOutdated("another leader is at work");
    return work(tx);
  });
}
