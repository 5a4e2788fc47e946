import { type JobRunStatus, openJobRunStatuses } from "@svc/proto";
import { sql } from "kysely";
import { jobRunTopic } from "../../../fleet/cluster/topics.ts";
import { notify } from "../../../stores/db/notify.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Job, JobRun } from "../../../stores/db/tables.ts";
import { type NamedJob, tellOfEnd } from "../alert.ts";
import type { Ending } from "./rules.ts";

/** Locks the job of a run, which comes before the run's own row; null when it is gone. */
export async function lockJob(tx: Db, jobId: string): Promise<(NamedJob & Pick<Job, "retired_at">) | null> {
  const job = await tx
    .selectFrom("job")
    .select(["project_id", "channel", "pr_number", "name", "retired_at"])
    .where("id", "=", jobId)
    .forNoKeyUpdate()
    .executeTakeFirst();
  return job ?? null;
}

/**
 * The one place where a run that was open ends for good: it never has another status. Null when it is not in one of `from`, and
 * then nothing happened. What else is to follow from the end of a run belongs here, in the same transaction.
 */
export async function endRun(
  tx: Db,
  { jobId, runId, from = openJobRunStatuses }: { jobId: string; runId: string; from?: readonly JobRunStatus[] },
  { status, reason, message }: Ending,
): Promise<JobRun | null> {
  const job = await lockJob(tx, jobId);
  if (job === null) return null;
  const run = await tx
    .updateTable("job_run")
    .set({ status, reason, message, retry_at: null, finished_at: sql<Date>`now()` })
    .where("id", "=", runId)
    .where("status", "in", [...from])
    .returningAll()
    .executeTakeFirst();
  if (run === undefined) return null;
  if (status === "succeeded") {
    await tx.updateTable("job").set({ last_success_at: sql<Date>`now()` }).where("id", "=", jobId).execute();
  }
  // Of a job that is no more nobody is told any more, also when a run of it goes on for a while.
  if (job.retired_at === null) await tellOfEnd(tx, job, run);
  // It may be begun from now on, and waits for room from now on.
  await tx
    .updateTable("job_run")
    .set({ retry_at: sql<Date>`now()`, reason: null, message: null })
    .where("job_id", "=", jobId)
    .where("status", "=", "waiting")
    .where("reason", "=", "overlap")
    .execute();
  await notify(tx, jobRunTopic);
  return run;
}
