import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";

const rowsPerStatement = 5_000;
/** The rest goes with the next round. */
const statementsMax = 20;

/**
 * Deletes what was counted more than `days` ago, the oldest first; months stay. What goes with its project at this
 * moment is left to that. Returns how many hours went.
 */
export async function expireTraffic(db: Db, days: number): Promise<number> {
  let deleted = 0;
  for (let statement = 0; statement < statementsMax; statement += 1) {
    const { numAffectedRows = 0n } = await sql`
      delete from traffic_hour where (project_id, channel, hour) in (
        select project_id, channel, hour from traffic_hour where hour < now() - ${days} * interval '1 day'
        order by hour limit ${rowsPerStatement} for update skip locked)`.execute(db);
    deleted += Number(numAffectedRows);
    if (numAffectedRows < BigInt(rowsPerStatement)) break;
  }
  return deleted;
}
