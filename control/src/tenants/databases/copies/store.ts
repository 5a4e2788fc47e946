import { sql } from "kysely";
import { removeTasks } from "../../../fleet/tasks/change.ts";
import { listWantedTasks } from "../../../fleet/tasks/store.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Branch, Copy } from "../../../stores/db/tables.ts";

/**
 * Begins a copy of the branch, which the caller has locked, as it is in its generation. Returns its id, or that of the one of
 * this purpose, or on this node, that follows the branch already.
 *
 * @param options.nodeId who is to keep it; absent: the one that suits best when its keeper is started
 */
export async function beginCopy(
  tx: Db,
  branch: Pick<Branch, "id" | "engine" | "project_id" | "channel" | "generation">,
  { purpose, nodeId = null }: { purpose: Copy["purpose"]; nodeId?: string | null },
): Promise<string> {
  const { engine, project_id, channel, generation } = branch;
  const open = await tx
    .selectFrom("database_copy")
    .select(["id", "purpose", "node_id"])
    .where("database_id", "=", branch.id)
    .where("state", "!=", "ended")
    .execute();
  // Two never follow on one node: what is there already serves as well.
  const same = open.find((copy) => copy.purpose === purpose || (nodeId !== null && copy.node_id === nodeId));
  if (same !== undefined) return same.id;
  const { id } = await tx
    .insertInto("database_copy")
    .values({
      id: sql<string>`gen_random_uuid()`,
      ...{ database_id: branch.id, engine, project_id, channel, generation, purpose, node_id: nodeId },
    })
    .returning("id")
    .executeTakeFirstOrThrow();
  return id;
}

/** Nothing is added to the copy any more; what it has can be restored for so many hours. One that has ended stays as it is. */
export async function endCopy(tx: Db, copyId: string, { keptHours }: { keptHours: number }): Promise<void> {
  await tx
    .updateTable("database_copy")
    .set({
      state: "ended",
      ended_at: sql<Date>`clock_timestamp()`,
      purge_at: sql<Date>`clock_timestamp() + ${keptHours} * interval '1 hour'`,
    })
    .where("id", "=", copyId)
    .where("state", "!=", "ended")
    .execute();
  const keepers = await listWantedTasks(tx, copyId, "keeper");
  await removeTasks(
    tx,
    keepers.map(({ id }) => id),
  );
}

/** The same of all copies of a branch. Those that have ended are kept for as long, too; see `keepCopies`. */
export async function endCopies(tx: Db, databaseId: string, { keptHours }: { keptHours: number }): Promise<void> {
  const copies = await tx
    .selectFrom("database_copy")
    .select("id")
    .where("database_id", "=", databaseId)
    .where("state", "!=", "ended")
    .orderBy("id")
    .execute();
  for (const { id } of copies) await endCopy(tx, id, { keptHours });
  await keepCopies(tx, databaseId, { keptHours });
}

/** Copies of a branch that have ended are kept for so many hours at least, unless their time is over: they may be going. */
export const keepCopies = async (tx: Db, databaseId: string, { keptHours }: { keptHours: number }): Promise<void> =>
  void (await tx
    .updateTable("database_copy")
    .set({ purge_at: sql<Date>`greatest(purge_at, clock_timestamp() + ${keptHours} * interval '1 hour')` })
    .where("database_id", "=", databaseId)
    .where("gone_at", "is", null)
    .where("purge_at", ">", sql<Date>`now()`)
    .execute());

/** A copy that something can be restored from, on a node that is still there. */
export type RestorableCopy = Copy & { node_id: string; covered_at: Date };

const isOfItsGeneration = sql<boolean>`database_copy.generation = coalesce(
  (select generation from database where database.id = database_copy.database_id),
  (select generation from dropped_database where dropped_database.id = database_copy.database_id))`;

/**
 * The copy that a branch, dropped ones included, is restored from: one that covers `until`, or without that the one that has
 * most. Of several that of the newest generation, and among those the one that goes on longest. Null: there is none.
 */
export async function findRestorable(
  db: Db,
  databaseId: string,
  until?: Date,
  { copyId, nodeId }: { copyId?: string; nodeId?: string } = {},
): Promise<RestorableCopy | null> {
  const copy = await db
    .selectFrom("database_copy")
    .innerJoin("node", "node.id", "database_copy.node_id")
    .selectAll("database_copy")
    .where("database_copy.database_id", "=", databaseId)
    .where("node.lifecycle", "=", "active")
    .where("database_copy.gone_at", "is", null)
    .where("database_copy.covered_at", "is not", null)
    .where((where) =>
      where.or([
        where("database_copy.purge_at", "is", null),
        where("database_copy.purge_at", ">", sql<Date>`now()`),
        where("database_copy.kept", "=", true),
      ]),
    )
    .where(
      sql<boolean>`exists (
        select from jsonb_array_elements(database_copy.bases) as base
        where ${until ?? null}::timestamptz is null or (
          (base ->> 'at')::timestamptz <= ${until ?? null}::timestamptz
          and coalesce((base ->> 'until')::timestamptz >= ${until ?? null}::timestamptz, true)))`,
    )
    .$if(copyId !== undefined, (query) => query.where("database_copy.id", "=", copyId ?? ""))
    .$if(nodeId !== undefined, (query) => query.where("database_copy.node_id", "=", nodeId ?? ""))
    .$if(until !== undefined, (query) => query.where("database_copy.covered_at", ">=", until ?? null))
    // One that goes back to a volume of before has copies of later ones, which it is not to come out of.
    .orderBy(isOfItsGeneration, "desc")
    .orderBy("database_copy.generation", "desc")
    .orderBy("database_copy.covered_at", "desc")
    .orderBy("database_copy.id")
    .limit(1)
    .executeTakeFirst();
  return copy === undefined ? null : (copy as RestorableCopy);
}
