import { deploymentId } from "./api.ts";

export const jobId = "33333333-3333-4333-8333-333333333333";
export const runId = "44444444-4444-4444-8444-444444444444";
const at = "2030-01-01T00:00:00.000Z";

/** A run as the API sends it. */
export const aJobRun = (fields: object = {}) => ({
  id: runId,
  jobId,
  jobName: "nightly",
  channel: "production",
  prNumber: null,
  deploymentId,
  trigger: "manual",
  status: "queued",
  reason: null,
  message: null,
  attemptCount: 0,
  scheduledAt: null,
  missed: 0,
  retryAt: null,
  createdAt: at,
  startedAt: null,
  finishedAt: null,
  exitCode: null,
  ...fields,
});

export const anAttempt = (attempt: number, fields: object = {}) => ({
  ...{ attempt, status: "running", exitCode: null, message: null, startedAt: at, finishedAt: null, logBytes: 0 },
  ...fields,
});

/** A definition as the API sends it. */
export const aJob = (fields: object = {}) => ({
  id: jobId,
  name: "nightly",
  channel: "production",
  prNumber: null,
  deploymentId,
  schedule: "0 3 * * *",
  timezone: "UTC",
  timeoutSeconds: 900,
  retries: 0,
  overlap: "skip",
  enabled: true,
  sourceEnabled: true,
  userEnabled: null,
  pauseReason: null,
  nextFireAt: "2099-01-01T03:00:00.000Z",
  lastFireAt: null,
  lastSuccessAt: null,
  createdAt: at,
  updatedAt: at,
  lastRun: null,
  ...fields,
});

export const jobLimits = {
  maxScheduledJobs: 5,
  scheduledJobs: 1,
  timeoutSecondsMax: 21_600,
  retriesMax: 10,
  logBytesMax: 1_048_576,
  runsKeptDays: 90,
  logsKeptDays: 30,
};
