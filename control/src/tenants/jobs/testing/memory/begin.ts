import { type JobRunStatus, openJobRunStatuses } from "@svc/proto";
import { jobRunTopic } from "../../../../fleet/cluster/topics.ts";
import type { Job, JobRun } from "../../../../stores/db/tables.ts";
import type { Tx } from "../../../deployments/testing/memory/tables.ts";
import type { NewRun } from "../../runs/begin.ts";
import { beginOf, type Ending, said } from "../../runs/rules.ts";
import { runIn } from "./tables.ts";

/** As `endRun` of `runs/end.ts`. */
export function endRun(
  tx: Tx,
  { jobId, runId, from = openJobRunStatuses }: { jobId: string; runId: string; from?: readonly JobRunStatus[] },
  { status, reason, message }: Ending,
): JobRun | null {
  const { tables, now, notify } = tx;
  const job = tables.jobs.jobs.get(jobId);
  const run = runIn(tx, runId, from);
  if (job === undefined || run === null) return null;
  Object.assign(run, { status, reason, message, retry_at: null, finished_at: now });
  tables.jobs.open.delete(runId);
  if (status === "succeeded") job.last_success_at = now;
  for (const other of tables.jobs.openOf(jobId)) {
    if (other.status !== "waiting" || other.reason !== "overlap") continue;
    Object.assign(other, { retry_at: now, reason: null, message: null });
  }
  notify(jobRunTopic);
  return { ...run };
}

/** As `beginRuns` of `runs/begin.ts`. */
export function beginRuns(tx: Tx, wanted: readonly (NewRun & { job: Job })[]): (JobRun | null)[] {
  const decided = wanted.map((each) => {
    const open = tx.tables.jobs.openOf(each.job.id);
    const others = open.map((run) => ({ ...run, attemptCount: run.attempt_count }));
    return { ...each, begin: beginOf({ overlap: each.job.overlap, trigger: each.trigger }, others) };
  });
  return decided.map(({ job, begin, trigger, fireAt, requestedBy }) => {
    if (begin.do === "answer") return copyOf(tx.tables.jobs.runs.get(begin.runId));
    if (begin.do === "replace") {
      const ending = { status: "skipped", ...said("capacity") } as const;
      endRun(tx, { jobId: job.id, runId: begin.runId, from: ["waiting"] }, ending);
    }
    const first = begin.do === "insert" ? { status: begin.status, ...begin.said } : { status: "queued" as const };
    const by = { requested_by: requestedBy?.userId ?? null, requested_by_token: requestedBy?.tokenId ?? null };
    const run = insertJobRun(tx, job, { trigger, fire_at: fireAt, ...first, ...by });
    if (run !== null) tx.notify(jobRunTopic);
    return copyOf(run);
  });
}

/** As `skipMissed` there. */
export function skipMissed(tx: Tx, missed: readonly { job: Job; fireAt: Date; count: number }[]): void {
  const row = { trigger: "schedule", status: "skipped", ...said("missed") } as const;
  for (const { job, fireAt, count } of missed) insertJobRun(tx, job, { ...row, fire_at: fireAt, missed: count });
}

/** Null where there is a run of that instant already. What is skipped is over at once. */
function insertJobRun(
  { tables, now }: Tx,
  job: Job,
  row: Pick<JobRun, "trigger" | "status" | "fire_at"> & Partial<JobRun>,
): JobRun | null {
  const ofJob = [...tables.jobs.runs.values()].filter(({ job_id }) => job_id === job.id);
  if (row.fire_at !== null && ofJob.some(({ fire_at }) => fire_at?.getTime() === row.fire_at?.getTime())) return null;
  return tables.jobs.insertRun({
    ...{ id: tables.id("r"), job_id: job.id, project_id: job.project_id, deployment_id: job.deployment_id },
    ...{ reason: null, message: null, missed: 0, attempt_count: 0, retry_at: null },
    ...{ requested_by_token: null, requested_by: null, cancel_requested_at: null },
    ...{ created_at: now, started_at: null, finished_at: row.status === "skipped" ? now : null },
    ...row,
  });
}

const copyOf = (run: JobRun | null | undefined): JobRun | null => (run == null ? null : { ...run });
