import { type JobReply, limits } from "@svc/proto";
import type { Job } from "../../../stores/db/tables.ts";
import { jobRunView, type ShownRun } from "../runs/view.ts";
import { isEnabled } from "./rules.ts";

const iso = (at: Date | null): string | null => at?.toISOString() ?? null;

/** What anybody who may see the project may see of a job: no command, no image, no environment. */
export const jobView = (job: Job, lastRun: ShownRun | null): JobReply => ({
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
  lastRun: lastRun && jobRunView(job, lastRun),
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
