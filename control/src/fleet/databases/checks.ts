import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import { workTopic } from "../../stores/work/queue.ts";

/** Work of this kind looks at a branch on its server: what it stores, and whose password it knows. */
export const checkKind = "database-check";

/** Has branches looked at, each once however often it is asked for meanwhile. Returns how many are looked at on top. */
export async function enqueueChecks(db: Db, databaseIds: readonly string[]): Promise<number> {
  if (databaseIds.length === 0) return 0;
  // By a key of their own: they must not be taken for what brings a branch to where it should be.
  const { numAffectedRows = 0n } = await sql`
    insert into work_item (kind, key, payload)
    select ${checkKind}, ${checkKind} || '/' || id, jsonb_build_object('databaseId', id)
    from unnest(${[...new Set(databaseIds)]}::uuid[]) as wanted (id)
    where not exists (
      select from work_item where work_item.key = ${checkKind} || '/' || wanted.id and work_item.state = 'queued')
    order by id`.execute(db);
  if (numAffectedRows > 0n) await sql`select pg_notify(${workTopic}, ${checkKind})`.execute(db);
  return Number(numAffectedRows);
}
