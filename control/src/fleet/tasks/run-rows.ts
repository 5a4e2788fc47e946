import type { Db } from "../../stores/db/pool.ts";
import type { Run } from "../../stores/db/tables.ts";

/** The newest attempt of an owner at a kind of command; null before the first. */
export async function findLastRun(db: Db, ownerId: string, kind: Run["kind"]): Promise<Run | null> {
  const run = await db
    .selectFrom("run")
    .selectAll()
    .where("owner_id", "=", ownerId)
    .where("kind", "=", kind)
    .orderBy("number", "desc")
    .limit(1)
    .executeTakeFirst();
  return run ?? null;
}

/** Puts down where an attempt is to be made, before anybody is offered it; null when that attempt is put down already. */
export async function insertRun(
  tx: Db,
  run: Pick<Run, "project_id" | "owner_kind" | "owner_id" | "kind" | "number" | "node_id">,
): Promise<Run | null> {
  const row = await tx
    .insertInto("run")
    .values(run)
    .onConflict((conflict) => conflict.columns(["owner_id", "kind", "number"]).doNothing())
    .returningAll()
    .executeTakeFirst();
  return row ?? null;
}

/** How an attempt went, as far as it has. */
export type RunOutcome = Pick<Run, "started_at"> & Partial<Pick<Run, "finished_at" | "exit_code">>;

export async function setRunOutcome(tx: Db, id: string, outcome: RunOutcome): Promise<void> {
  await tx.updateTable("run").set(outcome).where("id", "=", id).execute();
}
