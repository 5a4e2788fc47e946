import { type JobReply, type JobRunReply, limits } from "@svc/proto";
import type { Job, JobRun } from "../../../stores/db/tables.ts";
import { isEnabled } from "./rules.ts";

const iso = (at: Date | null): string | null => at?.toISOString() ?? null;

/** What anybody who may see the project may see of a job: no command, no image, no environment. */
export const jobView = (job: Job, lastRun: LastRun | null): JobReply => ({
  id: job.id,
  name: job.name,
  channel: job.channel,
  prNumber: job.pr_number === 0 ? null : job.pr_number,
  deploymentId: job.deployment_id,
  schedule: job.schedule,
  timezone: job.timezone,
  timeoutSeconds: job.timeout_seconds,
  retries: job.retries,
  overlap: job.overlap,
  enabled: isEnabled(job),
  sourceEnabled: job.source_enabled,
  userEnabled: job.user_enabled,
  pauseReason: job.pause_reason,
  nextFireAt: iso(job.next_fire_at),
  lastFireAt: iso(job.last_fire_at),
  lastSuccessAt: iso(job.last_success_at),
  createdAt: job.created_at.toISOString(),
  updatedAt: job.updated_at.toISOString(),
  lastRun: lastRun && lastRunView(job, lastRun),
});

/** The newest run of a job, and how its last attempt that ended did. */
export type LastRun = JobRun & { exit_code: number | null };

const lastRunView = (job: Job, run: LastRun): JobRunReply => ({
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
  retryAt: iso(run.retry_at),
  createdAt: run.created_at.toISOString(),
  startedAt: iso(run.started_at),
  finishedAt: iso(run.finished_at),
  exitCode: run.exit_code,
});

/** What holds for all jobs of a project, and how many of them there are. */
export const limitsView = (maxScheduledJobs: number, scheduledJobs: number) => ({
  maxScheduledJobs,
  scheduledJobs,
  timeoutSecondsMax: limits.jobTimeoutSecondsMax,
  retriesMax: limits.jobRetriesMax,
  logBytesMax: limits.jobLogBytesMax,
  runsKeptDays: limits.jobRunsKeptDays,
  logsKeptDays: limits.jobLogsKeptDays,
});
