import { limits, openJobRunStatuses } from "@svc/proto";
import { sql } from "kysely";
import type { Db } from "../../../stores/db/pool.ts";

const runsPerStatement = 500;
/** The rest goes with the next round. */
const statementsMax = 40;

/**
 * Deletes runs that are over and old, or beyond the newest of their job, with their attempts and what these wrote. The last success
 * and the last failure of each job stay. Returns how many went.
 */
export async function expireJobRuns(db: Db): Promise<number> {
  let deleted = 0;
  for (let statement = 0; statement < statementsMax; statement += 1) {
    const { rows } = await sql<{ count: number }>`
      with ranked as (
        select id, status, finished_at,
          row_number() over (partition by job_id order by number desc) as place,
          row_number() over (partition by job_id, status = 'succeeded', status in ('failed', 'timed_out') order by number desc) as "placeOfKind"
        from job_run where not status = any(${openJobRunStatuses})),
      expired as (
        select id from ranked
        where (place > ${limits.jobRunsKeptMax} or finished_at < now() - ${limits.jobRunsKeptDays} * interval '1 day')
          and not (status in ('succeeded', 'failed', 'timed_out') and "placeOfKind" = 1)
        limit ${runsPerStatement}),
      attempts as (delete from run where kind = 'job' and owner_id in (select id from expired) returning id),
      output as (delete from log_chunk where stream_id in (select id::text from attempts)),
      gone as (delete from job_run where id in (select id from expired) returning id)
      select count(*)::int as count from gone`.execute(db);
    const count = rows[0]?.count ?? 0;
    deleted += count;
    if (count < runsPerStatement) break;
  }
  return deleted;
}
