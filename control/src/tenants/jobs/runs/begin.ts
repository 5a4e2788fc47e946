import { openJobRunStatuses } from "@svc/proto";
import { jobRunTopic } from "../../../fleet/cluster/topics.ts";
import { notify } from "../../../stores/db/notify.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Job, JobRun } from "../../../stores/db/tables.ts";
import { type NamedJob, tellOfEnd } from "../alert.ts";
import { endRun } from "./end.ts";
import { beginOf, type Said, said } from "./rules.ts";

export interface NewRun {
  trigger: JobRun["trigger"];
  /** The instant of the schedule; null for a manual run. */
  fireAt: Date | null;
  requestedBy: { userId: string; tokenId: string | null } | null;
}

type OfJob = Pick<Job, "id" | "project_id" | "deployment_id" | "overlap">;

/**
 * Begins a run of a job whose row the caller has locked; what runs in it is what the job's `deployment_id` names. Null when there
 * is a run of that instant already. Of a manual run that would wait behind one that waits already, it returns that one.
 */
export async function beginRun(tx: Db, job: OfJob, { trigger, fireAt, requestedBy }: NewRun): Promise<JobRun | null> {
  const open = await tx
    .selectFrom("job_run")
    .selectAll()
    .where("job_id", "=", job.id)
    .where("status", "in", [...openJobRunStatuses])
    .orderBy("number")
    .execute();
  const begin = beginOf(
    { overlap: job.overlap, trigger },
    open.map((run) => ({ ...run, attemptCount: run.attempt_count })),
  );
  if (begin.do === "answer") return open.find(({ id }) => id === begin.runId) ?? null;
  if (begin.do === "replace") {
    await endRun(
      tx,
      { jobId: job.id, runId: begin.runId, from: ["waiting"] },
      { status: "skipped", ...said("capacity") },
    );
  }
  const run = await insertJobRun(tx, job, {
    ...{ trigger, fire_at: fireAt },
    status: begin.do === "insert" ? begin.status : "queued",
    ...(begin.do === "insert" ? begin.said : null),
    requested_by: requestedBy?.userId ?? null,
    requested_by_token: requestedBy?.tokenId ?? null,
  });
  if (run !== null) await notify(tx, jobRunTopic);
  return run;
}

/** Writes down that nobody was there for `missed` instants of the schedule, the newest of which is `fireAt`. */
export async function skipMissed(
  tx: Db,
  job: Omit<OfJob, "overlap"> & NamedJob,
  { fireAt, missed }: { fireAt: Date; missed: number },
): Promise<void> {
  const row = { trigger: "schedule", fire_at: fireAt, status: "skipped", ...said("missed"), missed } as const;
  const run = await insertJobRun(tx, job, row);
  if (run !== null) await tellOfEnd(tx, job, run);
}

type NewRow = Partial<Pick<JobRun, "requested_by" | "requested_by_token" | "missed">> &
  Partial<Said> & { trigger: JobRun["trigger"]; fire_at: Date | null; status: "queued" | "waiting" | "skipped" };

/** Null when there is a run of that instant already. What is skipped is over at once. */
async function insertJobRun(tx: Db, job: Omit<OfJob, "overlap">, row: NewRow): Promise<JobRun | null> {
  const inserted = await tx
    .insertInto("job_run")
    .values((of) => ({
      ...{ job_id: job.id, project_id: job.project_id, deployment_id: job.deployment_id, ...row },
      ...(row.status === "skipped" && { finished_at: of.fn<Date>("now") }),
    }))
    .onConflict((conflict) => conflict.columns(["job_id", "fire_at"]).doNothing())
    .returningAll()
    .executeTakeFirst();
  return inserted ?? null;
}
