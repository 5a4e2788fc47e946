// @pure
import { limits, plural } from "@svc/proto";
import type { RunValue } from "../../../fleet/cluster/keys.ts";
import type { Job, JobRun } from "../../../stores/db/tables.ts";

/** Of a run that waits, was skipped, or has ended: a word for programs, and a sentence for people. */
export interface Said {
  reason: string | null;
  message: string | null;
}

/** Of a run that is over. */
export type Ending = Said & { status: "succeeded" | "failed" | "timed_out" | "canceled" | "skipped" };

const sentences = {
  overlap: "The run before it is not over.",
  capacity: "No node has room for it.",
  missed: "Nobody was there to start it.",
  paused: "Its project does not run jobs at the moment.",
  retired: "What the channel serves now has no job of this name.",
} as const;

export const said = (reason: keyof typeof sentences): Said => ({ reason, message: sentences[reason] });

/** For a run that nobody started in time: why it waited, if that is known. */
export const tooLate = (reason: string | null): Ending => ({
  status: "skipped",
  ...said(reason === "capacity" ? "capacity" : "missed"),
});

/** What runs of a job have to do with one another. */
export interface OpenRun extends Pick<JobRun, "id" | "status" | "reason" | "trigger"> {
  attemptCount: number;
}

/** It waits, and no attempt at it ever began. */
export const isYetToBegin = ({ status, attemptCount }: Pick<OpenRun, "status" | "attemptCount">): boolean =>
  (status === "queued" || status === "waiting") && attemptCount === 0;

export type Begin =
  | { do: "insert"; status: "queued" | "waiting" | "skipped"; said: Said | null }
  /** The instant of one has passed that found no room; the new one takes its place. */
  | { do: "replace"; runId: string }
  /** It is what was asked for. */
  | { do: "answer"; runId: string };

/**
 * What becomes of a new run beside those that are not over, oldest first. At most one waits. Who asks for a run by hand gets
 * the one that waits already: a second click must not do it twice.
 */
export function beginOf(
  { overlap, trigger }: Pick<Job, "overlap"> & Pick<JobRun, "trigger">,
  open: readonly OpenRun[],
): Begin {
  const waiting = open.find(isYetToBegin);
  if (trigger === "manual" && waiting !== undefined) return { do: "answer", runId: waiting.id };
  if (open.length === 0) return { do: "insert", status: "queued", said: null };
  if (trigger === "manual") return { do: "insert", status: "waiting", said: said("overlap") };
  if (waiting?.reason === "capacity" && waiting.trigger === "schedule") return { do: "replace", runId: waiting.id };
  return overlap === "skip" || waiting !== undefined
    ? { do: "insert", status: "skipped", said: said("overlap") }
    : { do: "insert", status: "waiting", said: said("overlap") };
}

/** What is written down of an attempt that is over. */
export const outcomes = ["succeeded", "failed", "timed_out", "canceled", "unknown", "not_started"] as const;
export type Outcome = (typeof outcomes)[number];

/** How one attempt went. */
export interface AttemptEnd extends Said {
  outcome: Outcome;
  exitCode: number | null;
}

/** Failures of which it is certain that the command has ended, and which a retry may mend. */
const determinate: ReadonlySet<Outcome> = new Set(["failed", "timed_out"]);
export const isRetried = (outcome: Outcome): boolean => determinate.has(outcome);

type Evidence = Pick<RunValue, "state" | "cancel" | "exitCode" | "timedOut" | "message">;

/** Exit codes by which a shell tells that there is nothing to run. */
const noShell = 127;
const killed = 137;

/**
 * What the record of an attempt says of how it went; null while it is not over. A command that ran out of time did so, whatever
 * it made of the signal; one counts as canceled only when its node was asked to end it for this.
 */
export function attemptEnd(run: Evidence, isCancelRequested: boolean): AttemptEnd | null {
  const { exitCode } = run;
  const end = (outcome: AttemptEnd["outcome"], reason: string | null, message: string | null): AttemptEnd => ({
    ...{ outcome, reason, message, exitCode },
  });
  switch (run.state) {
    case "offered":
    case "accepted":
    case "granted":
    case "started":
      return null;
    case "refused":
    case "not_started":
      return end("not_started", "start", run.message ?? "No node could start it.");
    case "indeterminate":
      return end("unknown", "unknown", run.message ?? unknown.message);
    case "exited":
      if (run.timedOut) return end("timed_out", "timeout", "It ran for longer than its timeoutSeconds.");
      if (isCancelRequested && run.cancel) return end("canceled", null, null);
      if (exitCode === 0) return end("succeeded", null, null);
      if (exitCode === killed && run.message?.includes("memory")) return end("failed", "memory", run.message);
      return end("failed", "exit", exitText(exitCode, run.message));
  }
}

function exitText(exitCode: number | null, message: string | null): string {
  if (message !== null) return message;
  const hint = exitCode === noShell ? " The image may lack the program, or a shell (/bin/sh) to start it with." : "";
  return `The command ended with exit code ${exitCode ?? "unknown"}.${hint}`;
}

/** Of an attempt whose record is gone. */
export const unknown: AttemptEnd & { message: string } = {
  ...{ outcome: "unknown", exitCode: null, reason: "unknown" },
  message: "It is not known whether the command ran, so it is not run again.",
};

const retryFirstMs = 10_000;
const retryMaxMs = 300_000;
/** After so many attempts that began, the last of which failed. */
export const retryAfterMs = (attempts: number): number => Math.min(retryFirstMs * 2 ** (attempts - 1), retryMaxMs);

/** A node that does not start it may be about to be repaired; at first another one is asked at once. */
const offersMax = 8;
const offerAfterMs = (offers: number): number => (offers <= 1 ? 0 : 1_000 * 2 ** (offers - 2));

/** What becomes of a run after an attempt at it. */
export type After = { ends: Ending } | ({ againMs: number; begun: number } & Said);

export interface SoFar {
  /** Attempts that began, this one included if it did. */
  begun: number;
  /** Offers that no node has begun since the last attempt that did, this one included. */
  neverBegan: number;
  retries: number;
  isCancelRequested: boolean;
  /** What the platform itself asked it to end for; null: it did not. */
  askedFor: string | null;
}

/**
 * Whether a run is over with this attempt. Nothing is tried again of which nobody knows how it went, nor after somebody asked for
 * the end.
 */
export function afterAttempt(end: AttemptEnd, { begun, neverBegan, retries, ...asked }: SoFar): After {
  const { reason, message } = end;
  const canceled = { ends: { status: "canceled", ...canceledSaid(asked.askedFor) } } as const;
  switch (end.outcome) {
    case "succeeded":
      return { ends: { status: "succeeded", reason: null, message: null } };
    case "unknown":
      return { ends: { status: "failed", reason, message } };
    case "canceled":
      return canceled;
    case "not_started":
      if (asked.isCancelRequested) return canceled;
      return neverBegan >= offersMax
        ? { ends: { status: "failed", reason, message } }
        : { againMs: offerAfterMs(neverBegan), begun, reason, message };
    case "failed":
    case "timed_out": {
      const last = { ends: { status: end.outcome, reason, message } } as const;
      if (!isRetried(end.outcome) || begun > retries) return last;
      if (asked.isCancelRequested) return end.outcome === "timed_out" ? last : canceled;
      const left = plural(retries + 1 - begun, "attempt");
      return { againMs: retryAfterMs(begun), begun, reason: "retry", message: `${message} ${left} left.` };
    }
  }
}

const canceledSaid = (reason: string | null): Said =>
  reason === "paused" ? said("paused") : { reason, message: null };

/** How long one waits for room, at most. */
export const roomWaitMs = 3_600_000;

/** What a cancellation does to a run; null: it is over already. */
export function cancelOf(status: JobRun["status"]): "end" | "ask" | "asked" | null {
  switch (status) {
    case "queued":
    case "waiting":
      return "end";
    case "running":
      return "ask";
    case "cancel_requested":
      return "asked";
    default:
      return null;
  }
}

/** Bytes of an attempt's output that are shown, of which the first and the last count most. */
export const logShownBytes = limits.jobLogBytesMax;

export interface Runnable {
  isSuspended: boolean;
  /** Of the plan of the project's owner. */
  maxScheduledJobs: number;
  job: Pick<Job, "retired_at" | "deployment_id" | "pause_reason">;
  /** What its channel serves; null: nothing. */
  served: { deploymentId: string; isStopped: boolean } | null;
  hasImage: boolean;
}

/** Why a job cannot be run by hand; null when it can, also while it is not scheduled. */
export function runRefusal({ isSuspended, maxScheduledJobs, job, served, hasImage }: Runnable) {
  if (isSuspended) return { code: "SUSPENDED" } as const;
  if (maxScheduledJobs === 0) {
    return { code: "PLAN_FEATURE_UNAVAILABLE", message: "The plan does not include scheduled jobs." } as const;
  }
  if (job.pause_reason === "plan") {
    const message = `The plan has room for ${plural(maxScheduledJobs, "scheduled job")}, and others come before this one.`;
    return { code: "PLAN_FEATURE_UNAVAILABLE", message } as const;
  }
  if (served?.isStopped) {
    return { code: "SCOPE_UNAVAILABLE", message: "Production is stopped. Start it, and run the job then." } as const;
  }
  if (job.retired_at !== null || served?.deploymentId !== job.deployment_id)
    return { code: "SCOPE_UNAVAILABLE" } as const;
  return hasImage ? null : ({ code: "ARTIFACT_UNAVAILABLE" } as const);
}
