import type { Db } from "../../../stores/db/pool.ts";
import type { Job, JobRun } from "../../../stores/db/tables.ts";
import { enqueue } from "../../../stores/work/queue.ts";

/** What the worker of runs takes; runs of one job follow one another. */
export const jobRunWork = "job-run";

export interface NewRun {
  trigger: JobRun["trigger"];
  /** The instant of the schedule; null for a manual run. */
  fireAt: Date | null;
  requestedBy: { userId: string; tokenId: string | null } | null;
}

/**
 * Begins a run of a job whose row the caller has locked; what runs in it is what the job's `deployment_id` names. Null when there
 * is a run of that instant already. Of a manual run that would wait behind one that waits already, it returns that one.
 */
export async function beginRun(
  tx: Db,
  job: Pick<Job, "id" | "project_id" | "deployment_id" | "overlap">,
  { trigger, fireAt, requestedBy }: NewRun,
): Promise<JobRun | null> {
  const run = await tx
    .insertInto("job_run")
    .values({
      job_id: job.id,
      project_id: job.project_id,
      deployment_id: job.deployment_id,
      trigger,
      fire_at: fireAt,
      status: "queued",
      requested_by: requestedBy?.userId ?? null,
      requested_by_token: requestedBy?.tokenId ?? null,
    })
    .onConflict((conflict) => conflict.columns(["job_id", "fire_at"]).doNothing())
    .returningAll()
    .executeTakeFirst();
  if (run === undefined) return null;
  await enqueue(tx, { kind: jobRunWork, key: `job/${job.id}`, payload: { jobId: job.id } });
  return run;
}

/** Writes down that nobody was there for `missed` instants of the schedule, the newest of which is `fireAt`. */
export async function skipMissed(
  tx: Db,
  job: Pick<Job, "id" | "project_id" | "deployment_id">,
  { fireAt, missed }: { fireAt: Date; missed: number },
): Promise<void> {
  await tx
    .insertInto("job_run")
    .values({
      job_id: job.id,
      project_id: job.project_id,
      deployment_id: job.deployment_id,
      trigger: "schedule",
      fire_at: fireAt,
      status: "skipped",
      reason: "missed",
      missed,
    })
    .onConflict((conflict) => conflict.columns(["job_id", "fire_at"]).doNothing())
    .execute();
}
