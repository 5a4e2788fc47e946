import { limits, openJobRunStatuses } from "@svc/proto";
import { sql } from "kysely";
import type { Db } from "../../../stores/db/pool.ts";

/** Of one round; the next one goes on. */
const atOnce = 500;

/**
 * Deletes jobs that nothing has had for as long as runs are kept, with their history and what their owners said of them: each
 * preview that ever was has some. Returns how many.
 */
export async function forgetJobs(db: Db): Promise<number> {
  const { rows } = await sql`
    with gone as (
      select id from job where retired_at < now() - ${limits.jobRunsKeptDays} * interval '1 day'
        and not exists (select from job_run where job_id = job.id and status = any(${openJobRunStatuses}))
      order by id limit ${atOnce} for update skip locked),
    attempts as (
      delete from run where owner_kind = 'job'
        and owner_id in (select job_run.id from job_run join gone on gone.id = job_run.job_id) returning id),
    logs as (delete from log_chunk where stream_id in (select id::text from attempts))
    delete from job where id in (select id from gone) returning id`.execute(db);
  return rows.length;
}
