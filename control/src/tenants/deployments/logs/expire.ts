import { sql } from "kysely";
import type { Db } from "../../../stores/db/pool.ts";

const chunksPerStatement = 500;
/** The rest goes with the next round. */
const statementsMax = 40;

/**
 * Deletes what builds and release commands wrote more than `days` ago, except of deployments that serve, or would
 * after a start: theirs stay as long as they do. Returns how many pieces went.
 */
export async function expireLogs(db: Db, days: number): Promise<number> {
  let deleted = 0;
  for (let statement = 0; statement < statementsMax; statement += 1) {
    const { numAffectedRows = 0n } = await sql`
      with kept as (
        select task.id::text as stream_id
        from deployment join task on task.owner_id = deployment.id
        where deployment.status in ('running', 'stopped') and task.kind = 'build'
        union all
        select run.id::text
        from deployment join run on run.owner_id = deployment.id
        where deployment.status in ('running', 'stopped'))
      delete from log_chunk where (stream_id, "offset") in (
        select stream_id, "offset" from log_chunk
        where created_at < now() - ${days} * interval '1 day'
          and not exists (select from kept where kept.stream_id = log_chunk.stream_id)
        limit ${chunksPerStatement})`.execute(db);
    deleted += Number(numAffectedRows);
    if (numAffectedRows < BigInt(chunksPerStatement)) break;
  }
  return deleted;
}
