import { z } from "zod";
import { limits } from "../limits.ts";
import { channel, count, id, replyObject, success, timestamp } from "./envelope.ts";
import { optionalWholeNumber, wholeNumber } from "./query.ts";

/**
 * queued: it has not been begun. waiting: for room on a node, for the run before it, or for its next attempt. cancel_requested: its
 * command was asked to end. skipped: it never began, and never will.
 */
export const jobRunStatuses = [
  "queued",
  "waiting",
  "running",
  "cancel_requested",
  "succeeded",
  "failed",
  "timed_out",
  "canceled",
  "skipped",
] as const;
export type JobRunStatus = (typeof jobRunStatuses)[number];

/** Those in which a run is not over. */
export const openJobRunStatuses = [
  "queued",
  "waiting",
  "running",
  "cancel_requested",
] as const satisfies JobRunStatus[];

export const isJobRunOver = (status: JobRunStatus): boolean =>
  !(openJobRunStatuses as readonly JobRunStatus[]).includes(status);

export const jobTriggers = ["schedule", "manual"] as const;
export type JobTrigger = (typeof jobTriggers)[number];

/** Why the platform does not schedule a job: production was stopped, its project suspended, or its plan has no jobs (left). */
export const jobPauseReasons = ["stopped", "suspended", "plan"] as const;
export type JobPauseReason = (typeof jobPauseReasons)[number];

/**
 * Why a run waits, was skipped, or ended as it did. capacity: no node had room. overlap: the run before it was not over. retry:
 * the next attempt comes. missed: nobody was there to start it. paused, retired: while it waited. unknown: nobody knows whether
 * the command ran. exit, memory, timeout, start: how the last attempt failed.
 */
export const jobRunReasons = [
  ...["capacity", "overlap", "retry", "missed", "paused", "retired", "unknown", "exit", "memory", "timeout", "start"],
] as const;

export const jobRun = replyObject({
  id,
  jobId: id,
  jobName: z.string(),
  channel,
  /** The pull request of its preview; null: none. */
  prNumber: z.int().nullable(),
  deploymentId: id,
  trigger: z.enum(jobTriggers),
  status: z.enum(jobRunStatuses),
  /** Word of `jobRunReasons`; null: there is nothing to say. */
  reason: z.string().nullable(),
  /** The same for people. */
  message: z.string().nullable(),
  /** Attempts that began. */
  attemptCount: count,
  /** The instant of the schedule; null: somebody asked for it. */
  scheduledAt: timestamp.nullable(),
  /** How many instants of the schedule nobody was there for, this one included; 0 unless `reason` is `missed`. */
  missed: count,
  /** When the next attempt may begin; null: none waits. */
  retryAt: timestamp.nullable(),
  createdAt: timestamp,
  startedAt: timestamp.nullable(),
  finishedAt: timestamp.nullable(),
  /** Of the last attempt that ended; null: none did, or nobody knows. */
  exitCode: z.int().nullable(),
});
export type JobRunReply = z.output<typeof jobRun>;

export const jobAttempt = replyObject({
  /** Counts from 1. */
  attempt: z.int().min(1),
  /** offered: no node has begun it. not_started: none will. unknown: nobody knows how it went. */
  status: z.enum(["offered", "not_started", "running", "succeeded", "failed", "timed_out", "canceled", "unknown"]),
  exitCode: z.int().nullable(),
  message: z.string().nullable(),
  startedAt: timestamp.nullable(),
  finishedAt: timestamp.nullable(),
  logBytes: count,
});
export type JobAttemptReply = z.output<typeof jobAttempt>;

export const job = replyObject({
  id,
  name: z.string(),
  channel,
  prNumber: z.int().nullable(),
  deploymentId: id,
  schedule: z.string(),
  timezone: z.string(),
  timeoutSeconds: count,
  retries: count,
  overlap: z.enum(["skip", "queue"]),
  /** Whether it is scheduled by what the manifest and its owner say; a pause is told by `pauseReason`. */
  enabled: z.boolean(),
  /** What the manifest says. */
  sourceEnabled: z.boolean(),
  /** What its owner said, over all deployments; null: nothing. */
  userEnabled: z.boolean().nullable(),
  pauseReason: z.enum(jobPauseReasons).nullable(),
  /** Null: it is not scheduled. */
  nextFireAt: timestamp.nullable(),
  lastFireAt: timestamp.nullable(),
  lastSuccessAt: timestamp.nullable(),
  createdAt: timestamp,
  updatedAt: timestamp,
  lastRun: jobRun.nullable(),
});
export type JobReply = z.output<typeof job>;

/** Without any: production. The preview of a pull request is named by the deployment that it serves. */
export const jobsQuery = z.strictObject({ channel: channel.optional(), deployment: id.optional() });
export type JobsQuery = z.output<typeof jobsQuery>;
export const jobsReply = success({
  jobs: z.array(job),
  limits: replyObject({
    /** Of the plan: in all channels of a project. */
    maxScheduledJobs: count,
    /** How many of them there are. */
    scheduledJobs: count,
    timeoutSecondsMax: count,
    retriesMax: count,
    logBytesMax: count,
    /** For how long ended runs are told of, and their output is kept. */
    runsKeptDays: count,
    logsKeptDays: count,
  }),
});

export const jobParams = z.strictObject({ id, jobId: id });
export const jobPatch = z.strictObject({ enabled: z.boolean() });
export const jobReply = success({ job });

const jobRunsListDefault = 20;
/** More than any run has. */
const attemptMax = 1000;

export const jobRunsQuery = z.strictObject({
  channel: channel.optional(),
  deployment: id.optional(),
  status: z.enum(jobRunStatuses).optional(),
  name: z.string().min(1).max(limits.jobNameLengthMax).optional(),
  limit: wholeNumber(1, limits.jobRunsListMax, jobRunsListDefault),
  cursor: z.string().min(1).max(200).optional(),
});
export const jobRunsReply = success({ runs: z.array(jobRun), nextCursor: z.string().nullable() });

export const jobRunParams = z.strictObject({ id, runId: id });
export const jobRunReply = success({ run: jobRun });
/** Oldest attempt first. */
export const jobRunDetailReply = success({ run: jobRun, attempts: z.array(jobAttempt) });

/** Without an attempt: the newest. */
export const jobRunLogsQuery = z.strictObject({ attempt: optionalWholeNumber(1, attemptMax) });
export const jobRunLogsReply = success({
  attempt: z.int().min(1),
  log: z.string(),
  /** Bytes that the command wrote and that were left out in the middle. */
  omittedBytes: count,
  /** Whether more may come. */
  live: z.boolean(),
});
