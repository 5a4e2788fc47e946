import { type RawBuilder, sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import type { Plan } from "../../stores/db/tables.ts";
import { workTopic } from "../../stores/work/queue.ts";
import { type Concerned, isConcerned } from "./apply-limits.ts";

/** Work of this kind brings a branch to where it should be. */
export const databaseKind = "database";

/** Whether databases get the same under both plans. */
export const givesSameDatabases = (
  a: Pick<Plan, "db_size_mb" | "db_connection_limit" | "cpu_millicores">,
  b: Pick<Plan, "db_size_mb" | "db_connection_limit" | "cpu_millicores">,
): boolean =>
  a.db_size_mb === b.db_size_mb &&
  a.db_connection_limit === b.db_connection_limit &&
  a.cpu_millicores === b.cpu_millicores;

/** Has every branch concerned looked at, from the transaction on that changes the plan; see `enqueueApplyLimits`. */
export const reconcileDatabases = (tx: Db, concerned: Concerned): Promise<number> =>
  wakeDatabases(tx, isConcerned(concerned));

/**
 * Makes sure that a worker looks at the branches of which `which` is true after this transaction. It may ask for the
 * `database`, its `project` and the `account` of who owns that, if there is one. Returns how many there are.
 */
export async function wakeDatabases(tx: Db, which: RawBuilder<boolean>): Promise<number> {
  // An item that waits for its time is woken, since one behind it would wait for it.
  const { rows } = await sql<{ count: number }>`
    with awaited as (
      select database.id, database.project_id, ${databaseKind} || '/' || database.id as key
      from database join project on project.id = database.project_id
        left join account on account.user_id = project.owner_id
      where ${which}),
    woken as (
      update work_item set run_at = now() from awaited
      where work_item.key = awaited.key and work_item.state = 'queued'
      returning work_item.key),
    added as (
      insert into work_item (kind, key, payload)
      select ${databaseKind}, key, jsonb_build_object('databaseId', id, 'projectId', project_id)
      from awaited where not exists (select from woken where woken.key = awaited.key) order by id)
    select count(*) from awaited`.execute(tx);
  const count = rows[0]?.count ?? 0;
  if (count > 0) await sql`select pg_notify(${workTopic}, ${databaseKind})`.execute(tx);
  return count;
}
