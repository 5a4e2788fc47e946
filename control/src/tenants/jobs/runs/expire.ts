import { limits } from "@svc/proto";
import { sql } from "kysely";
import type { Db } from "../../../stores/db/pool.ts";

const runsPerStatement = 500;
/** The rest goes with the next round: more than an account can have begun by hand since the last one. */
const statementsMax = 1_000;

/** As the indexes have it that find them: a list that is given would not do. */
const isOver = sql`job_run.status in ('succeeded', 'failed', 'timed_out', 'canceled', 'skipped')`;

/** It is the last success of its job, or the last failure. */
const isLastOfKind = sql`(
  job_run.status = 'succeeded' and not exists (
    select from job_run later where later.job_id = job_run.job_id and later.number > job_run.number and later.status = 'succeeded')
  or job_run.status in ('failed', 'timed_out') and not exists (
    select from job_run later where later.job_id = job_run.job_id and later.number > job_run.number
      and later.status in ('failed', 'timed_out')))`;

/**
 * Deletes runs that are over and old, or beyond the newest of their job, with their attempts and what these wrote. The last success
 * and the last failure of each job stay. Returns how many went.
 */
export async function expireJobRuns(db: Db): Promise<number> {
  let deleted = 0;
  // Which jobs have too many is found once, by a walk over the newest of each: nothing is sorted.
  const { rows: crowded } = await sql<{ id: string; edge: string }>`
    select job.id, edge.number::text as edge from job, lateral (
      select number from job_run where job_run.job_id = job.id and ${isOver}
      order by number desc offset ${limits.jobRunsKeptMax} limit 1) edge`.execute(db);
  const [ids, edges] = [crowded.map(({ id }) => id), crowded.map(({ edge }) => edge)];
  for (let statement = 0; statement < statementsMax; statement += 1) {
    const { rows } = await sql<{ count: number }>`
      with old as (
        select id from job_run
        where ${isOver} and finished_at < now() - ${limits.jobRunsKeptDays} * interval '1 day' and not ${isLastOfKind}
        limit ${runsPerStatement}),
      beyond as (
        select job_run.id from unnest(${ids}::uuid[], ${edges}::bigint[]) as crowded (job_id, edge)
        join job_run on job_run.job_id = crowded.job_id and job_run.number <= crowded.edge
        where ${isOver} and not ${isLastOfKind}
        limit ${runsPerStatement}),
      expired as (select id from old union select id from beyond limit ${runsPerStatement}),
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
