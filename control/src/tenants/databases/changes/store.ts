import { sql, type UpdateObject } from "kysely";
import type { Database } from "../../../stores/db/gen/tables.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Branch, Change } from "../../../stores/db/tables.ts";
import { Refused } from "../../../stores/refused.ts";
import { enqueue, workTopic } from "../../../stores/work/queue.ts";
import { placeVolume, retireVolume } from "../volumes/store.ts";
import { holding } from "./switch.ts";

/** Work of this kind brings a change of a branch to its end. */
export const changeKind = "database-change";

const now = sql<Date>`clock_timestamp()`;

/** The change that a branch is under; null: it is under none. Exact while the branch is locked. */
export async function findOpenChange(db: Db, databaseId: string): Promise<Change | null> {
  const change = await db
    .selectFrom("database_change")
    .selectAll()
    .where("database_id", "=", databaseId)
    .where("ended_at", "is", null)
    .executeTakeFirst();
  return change ?? null;
}

/** The change that a branch is under. Throws CONFLICT: it has just ended. */
export async function getOpenChange(db: Db, databaseId: string): Promise<Change> {
  const change = await findOpenChange(db, databaseId);
  if (change === null) throw new Refused("CONFLICT", "The database is under no change.");
  return change;
}

/** Whether a change has the branch in its hands: not yet while a copy is made. Exact while the branch is locked. */
export async function holdsBranch(db: Db, databaseId: string): Promise<boolean> {
  const change = await db
    .selectFrom("database_change")
    .select("id")
    .where("database_id", "=", databaseId)
    .where("ended_at", "is", null)
    .where("state", "in", holding)
    .executeTakeFirst();
  return change !== undefined;
}

/** The newest first. */
export const listChanges = (db: Db, databaseId: string, max: number): Promise<Change[]> =>
  db
    .selectFrom("database_change")
    .selectAll()
    .where("database_id", "=", databaseId)
    .orderBy("created_at", "desc")
    .orderBy("id")
    .limit(max)
    .execute();

export interface NewChange
  extends Pick<Change, "kind" | "copy_id" | "until" | "to_node" | "covered_at" | "requested_by">,
    Partial<Pick<Change, "image" | "volume_generation">> {
  id: string;
  /** A move makes its copy first; all else ends the server at once. */
  state: "copying" | "stopping";
}

/** Begins a change of the branch, which the caller has locked, with the work that does it. False: it is under one already. */
export async function insertChange(
  tx: Db,
  branch: Pick<Branch, "id" | "project_id" | "node_id" | "generation">,
  change: NewChange,
): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await tx
    .insertInto("database_change")
    .values({
      ...{ ...change, database_id: branch.id, from_node: branch.node_id, from_generation: branch.generation },
      ...(change.state === "stopping" && { frozen_at: now }),
    })
    .onConflict((conflict) => conflict.column("database_id").where("ended_at", "is", null).doNothing())
    .executeTakeFirst();
  if (numInsertedOrUpdatedRows !== 1n) return false;
  const payload = { changeId: change.id, databaseId: branch.id, projectId: branch.project_id };
  await enqueue(tx, { kind: changeKind, key: workKey(change.id), payload });
  return true;
}

export const workKey = (changeId: string): string => `${changeKind}/${changeId}`;

/** Has the worker look at the change after this transaction, if it waits. */
export async function wakeChange(tx: Db, changeId: string): Promise<void> {
  await tx
    .updateTable("work_item")
    .set({ run_at: sql<Date>`now()` })
    .where("key", "=", workKey(changeId))
    .where("state", "=", "queued")
    .execute();
  await sql`select pg_notify(${workTopic}, ${changeKind})`.execute(tx);
}

/** The change if it is still in `state`, held until the transaction ends; null when it is not. After its branch. */
export async function lockChange(tx: Db, id: string, state: Change["state"]): Promise<Change | null> {
  const change = await tx
    .selectFrom("database_change")
    .selectAll()
    .where("id", "=", id)
    .where("state", "=", state)
    .forUpdate()
    .executeTakeFirst();
  return change ?? null;
}

/** Moves a change that the caller has locked. */
export const moveChange = async (
  tx: Db,
  id: string,
  to: Exclude<Change["state"], "done" | "failed">,
  change: UpdateObject<Database, "database_change"> = {},
): Promise<void> =>
  void (await tx
    .updateTable("database_change")
    .set({ ...change, state: to, state_at: now })
    .where("id", "=", id)
    .execute());

/** Ends a change that the caller has locked; with a problem it has failed. */
export const endChange = async (tx: Db, id: string, problem: string | null): Promise<void> =>
  void (await tx
    .updateTable("database_change")
    .set({ state: problem === null ? "done" : "failed", problem, state_at: now, ended_at: now })
    .where("id", "=", id)
    .execute());

/** Why the tenant is to be let in again, from before anybody lets it in. */
export const setUndoing = async (tx: Db, id: string, undoing: string): Promise<void> =>
  void (await tx.updateTable("database_change").set({ undoing }).where("id", "=", id).execute());

/** Asks for the end of a change that the caller has locked. */
export const setCancelled = async (tx: Db, id: string): Promise<void> =>
  void (await tx.updateTable("database_change").set({ cancelled: true }).where("id", "=", id).execute());

/** The number of a branch's next volume: one that none of its volumes ever had, also such as nobody knows any more. */
async function nextGeneration(tx: Db, { id, generation }: Branch): Promise<number> {
  const { rows } = await sql<{ max: number }>`
    select greatest(${generation},
      (select max(generation) from database_volume where database_id = ${id}),
      (select max(from_generation) from database_change where database_id = ${id})) as max`.execute(tx);
  return (rows[0]?.max ?? generation) + 1;
}

/**
 * The branch, which the caller has locked and whose servers are over, has its data in another volume from this transaction on: in one
 * of the next generation, or in that of `generation`, which it had before. The one of until now is kept for so many hours. Gives the
 * branch as it is then.
 */
export async function takeVolume(
  tx: Db,
  branch: Branch,
  { nodeId, keptHours, ...taken }: { nodeId: string; keptHours: number; generation?: number },
): Promise<Branch> {
  const generation = taken.generation ?? (await nextGeneration(tx, branch));
  if (branch.node_id !== null && branch.generation !== generation) {
    const before = { databaseId: branch.id, generation: branch.generation, nodeId: branch.node_id };
    await retireVolume(tx, before, { state: "salvage", keptHours, bytes: branch.volume_bytes });
  }
  await placeVolume(tx, { databaseId: branch.id, generation, nodeId });
  return tx
    .updateTable("database")
    .set({
      generation,
      node_id: nodeId,
      keeper_at: null,
      tenant_at: null,
      tenant_doubts: sql<number>`tenant_doubts + 1`,
    })
    .where("id", "=", branch.id)
    .returningAll()
    .executeTakeFirstOrThrow();
}
