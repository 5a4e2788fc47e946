import { sql } from "kysely";
import type { Db } from "../../../stores/db/pool.ts";

/** Of each branch the newest are kept. A move that a drain asks for may fail every few minutes. */
const keptMax = 100;

/** Forgets changes that are over: older ones of each branch, and all of branches that nobody can bring back. Returns how many. */
export async function forgetChanges(db: Db): Promise<number> {
  const { numAffectedRows = 0n } = await sql`
    delete from database_change change using (
      select id, row_number() over (partition by database_id order by created_at desc, id) as rank from database_change) ranked
    where ranked.id = change.id and change.ended_at is not null
      and (ranked.rank > ${keptMax} or not exists (select from database where id = change.database_id)
        and not exists (select from dropped_database where id = change.database_id))`.execute(db);
  return Number(numAffectedRows);
}
