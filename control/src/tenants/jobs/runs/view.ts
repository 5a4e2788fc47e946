import type { JobAttemptReply, JobRunReply } from "@svc/proto";
import type { Job, JobRun, Run } from "../../../stores/db/tables.ts";
import type { Outcome } from "./rules.ts";

const iso = (at: Date | null): string | null => at?.toISOString() ?? null;

/** A run with how its last attempt that ended did. */
export type ShownRun = JobRun & { exit_code: number | null };

/** What anybody who may see the project may see of a run: no command, no image, no node. */
export const jobRunView = (job: Pick<Job, "id" | "name" | "channel" | "pr_number">, run: ShownRun): JobRunReply => ({
  id: run.id,
  jobId: job.id,
  jobName: job.name,
  channel: job.channel,
  prNumber: job.pr_number === 0 ? null : job.pr_number,
  deploymentId: run.deployment_id,
  trigger: run.trigger,
  status: run.status,
  reason: run.reason,
  message: run.message,
  attemptCount: run.attempt_count,
  scheduledAt: iso(run.fire_at),
  missed: run.missed,
  retryAt: run.reason === "retry" ? iso(run.retry_at) : null,
  createdAt: run.created_at.toISOString(),
  startedAt: iso(run.started_at),
  finishedAt: iso(run.finished_at),
  exitCode: run.exit_code,
});

/** An attempt with the bytes of its output that are kept. */
export type ShownAttempt = Run & { log_bytes: number };

/** Attempts as people count them: those that began, and the one that is to. What no node began is told of while it is the last. */
export function numbered<A extends Pick<Run, "outcome">>(attempts: readonly A[]): { attempt: number; row: A }[] {
  const told = attempts.filter(({ outcome }, at) => outcome !== "not_started" || at === attempts.length - 1);
  return told.map((row, at) => ({ attempt: at + 1, row }));
}

/** `isOver`: its run is, so that nobody begins any more what nobody has begun. */
export const attemptView = (attempt: number, row: ShownAttempt, isOver: boolean): JobAttemptReply => ({
  attempt,
  status: (row.outcome as Outcome | null) ?? (row.started_at !== null ? "running" : isOver ? "not_started" : "offered"),
  exitCode: row.exit_code,
  message: row.message,
  startedAt: iso(row.started_at),
  finishedAt: iso(row.finished_at),
  logBytes: row.log_bytes,
});
