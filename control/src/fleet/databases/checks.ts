import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import { workTopic } from "../../stores/work/queue.ts";

/** Work of this kind looks at a branch on its server: what it stores, and whose password it knows. */
export const checkKind = "database-check";

/** Work of this kind sees to the copies of a branch. */
export const copiesKind = "copies";

/** Has branches looked at, each once however often it is asked for meanwhile. Returns how many are looked at on top. */
export const enqueueChecks = (db: Db, databaseIds: readonly string[]): Promise<number> =>
  enqueueLooks(db, checkKind, databaseIds);

/** The same of their copies. */
export const enqueueCopies = (db: Db, databaseIds: readonly string[]): Promise<number> =>
  enqueueLooks(db, copiesKind, databaseIds);

async function enqueueLooks(db: Db, kind: string, databaseIds: readonly string[]): Promise<number> {
  if (databaseIds.length === 0) return 0;
  // By a key of their own: they must not be taken for what brings a branch to where it should be.
  const { numAffectedRows = 0n } = await sql`
    insert into work_item (kind, key, payload)
    select ${kind}::text, ${kind}::text || '/' || id, jsonb_build_object('databaseId', id)
    from unnest(${[...new Set(databaseIds)]}::uuid[]) as wanted (id)
    where not exists (
      select from work_item where work_item.key = ${kind}::text || '/' || wanted.id and work_item.state = 'queued')
    order by id`.execute(db);
  if (numAffectedRows > 0n) await sql`select pg_notify(${workTopic}, ${kind})`.execute(db);
  return Number(numAffectedRows);
}
