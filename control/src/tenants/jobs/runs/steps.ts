// @pure
import { limits } from "@svc/proto";
import type { RunValue } from "../../../fleet/cluster/keys.ts";
import type { Job, JobRun } from "../../../stores/db/tables.ts";
import {
  type After,
  type AttemptEnd,
  afterAttempt,
  attemptEnd,
  type Ending,
  isYetToBegin,
  roomWaitMs,
  type Said,
  said,
  tooLate,
  unknown,
} from "./rules.ts";

/** An attempt whose outcome is not written down. */
export interface OpenAttempt {
  id: string;
  number: number;
  nodeId: string;
  /** Since when its node has no stream; null: it has one. */
  nodeLostAt: Date | null;
  /** Its record in etcd; null: there is none. */
  run: RunValue | null;
}

/** All that decides about one run that is not over. */
export interface JobRunFacts {
  now: Date;
  id: string;
  jobId: string;
  status: JobRun["status"];
  reason: string | null;
  trigger: JobRun["trigger"];
  /** Attempts that began. */
  attemptCount: number;
  createdAt: Date;
  /** Not before. */
  retryAt: Date | null;
  deploymentId: string;
  /** No run of its job that is not over is older. */
  isFirst: boolean;
  job: { deploymentId: string; retries: number; isRetired: boolean; pause: Job["pause_reason"] };
  projectGone: boolean;
  /** What it is to run in is there. */
  hasImage: boolean;
  attempt: OpenAttempt | null;
  /** How the last attempt that began ended; null: none did. */
  last: Pick<AttemptEnd, "outcome" | "message"> | null;
  /** Offers that no node has begun since. */
  neverBegan: number;
}

export type JobRunStep =
  /** It is over, and no attempt at it is. */
  | { do: "end"; ending: Ending }
  /** Its command is to end: its project may run nothing, or what it runs in is deleted. */
  | { do: "ask"; reason: string }
  | { do: "note"; said: Said }
  /** It is to run in what its channel serves by now. */
  | { do: "move"; deploymentId: string }
  /** It wants a node. */
  | { do: "place" }
  | { do: "offer"; attempt: OpenAttempt }
  /** Nobody is to start the attempt any more. */
  | { do: "withdraw"; attempt: OpenAttempt; run: RunValue; detail: string }
  /** Asks the node to end it, or never to start it. */
  | { do: "stop"; attempt: OpenAttempt }
  /** From here on it counts as running, and is never offered again. */
  | { do: "grant"; attempt: OpenAttempt; run: RunValue }
  | { do: "conclude"; attempt: OpenAttempt | null; end: AttemptEnd; after: After }
  | { do: "wait" };

const wait: JobRunStep = { do: "wait" };
const nodeLostMs = 20_000;
const answerMs = limits.pullSecondsMax * 1_000;

const isPast = (now: Date, at: Date, ms: number): boolean => now.getTime() >= at.getTime() + ms;

/**
 * The next thing to do for a run that is not over. Whoever carries it out does so only while the row and the record are what was
 * decided on, and asks again: a leader that is killed anywhere is continued by the next one.
 */
export function nextJobRunStep(facts: JobRunFacts): JobRunStep {
  const { attempt, status } = facts;
  const end = attempt?.run ? attemptEnd(attempt.run, status === "cancel_requested") : null;
  if (end !== null) return conclude(facts, end);
  return status === "queued" || status === "waiting" ? waitingStep(facts) : runningStep(facts);
}

function conclude(facts: JobRunFacts, end: AttemptEnd): JobRunStep {
  const { attempt, attemptCount, neverBegan, status, job, reason } = facts;
  const never = end.outcome === "not_started";
  const isCounted = status === "running" || status === "cancel_requested";
  const after = afterAttempt(end, {
    // Counted when it was granted; what was not, and ran all the same, was.
    begun: never ? attemptCount - (isCounted ? 1 : 0) : attemptCount + (isCounted ? 0 : 1),
    neverBegan: never ? neverBegan + 1 : 0,
    retries: job.retries,
    isCancelRequested: status === "cancel_requested",
    askedFor: status === "cancel_requested" ? reason : null,
  });
  return { do: "conclude", attempt, end, after };
}

/** Why a run that does not run now is to end; null: it is wanted. */
function unwanted(facts: JobRunFacts): Ending | null {
  const { job, projectGone, hasImage } = facts;
  if (projectGone) return { status: "canceled", reason: null, message: "Its project is being deleted." };
  if (!isYetToBegin(facts)) {
    if (job.pause === "suspended") return { status: "canceled", ...said("paused") };
    const gone = "What it ran in is not there any more.";
    return hasImage ? null : { status: "failed", reason: "start", message: gone };
  }
  if (job.pause !== null) return { status: "skipped", ...said("paused") };
  return job.isRetired || !hasImage ? { status: "skipped", ...said("retired") } : null;
}

function waitingStep(facts: JobRunFacts): JobRunStep {
  const { now, attempt, isFirst, job, reason, retryAt, status } = facts;
  const isToMove = isYetToBegin(facts) && attempt === null && !job.isRetired && facts.deploymentId !== job.deploymentId;
  if (isToMove && job.pause === null && !facts.projectGone) return { do: "move", deploymentId: job.deploymentId };
  const ending = unwanted(facts);
  if (ending !== null) return { do: "end", ending };
  if (!isFirst) {
    return status === "waiting" && reason === "overlap" ? wait : { do: "note", said: said("overlap") };
  }
  if (attempt !== null) return offeredStep(facts, attempt);
  if (retryAt !== null && retryAt > now) return wait;
  if (!isPast(now, retryAt ?? facts.createdAt, roomWaitMs)) return { do: "place" };
  const { last } = facts;
  if (last === null) return { do: "end", ending: tooLate(reason) };
  const message = `${last.message ?? "The last attempt failed."} No node had room for another one.`;
  return {
    do: "end",
    ending: { status: last.outcome === "timed_out" ? "timed_out" : "failed", reason: "capacity", message },
  };
}

/** Of an attempt that was not granted, so that another node may have it. */
function offeredStep({ now }: JobRunFacts, attempt: OpenAttempt): JobRunStep {
  const { run, nodeLostAt } = attempt;
  if (run === null) return { do: "offer", attempt };
  if (run.state === "granted" || run.state === "started") return { do: "grant", attempt, run };
  if (nodeLostAt !== null)
    return isPast(now, nodeLostAt, nodeLostMs)
      ? { do: "withdraw", attempt, run, detail: "its node went away before it began" }
      : wait;
  if (run.cancel) return wait;
  if (run.state === "accepted") return { do: "grant", attempt, run };
  return isPast(now, new Date(run.changedAt), answerMs)
    ? { do: "withdraw", attempt, run, detail: "the node did not answer the offer" }
    : wait;
}

function runningStep(facts: JobRunFacts): JobRunStep {
  const { attempt, hasImage, job, status, projectGone } = facts;
  // What was offered has a record until its end is written down.
  if (attempt === null || attempt.run === null) return conclude(facts, unknown);
  const isWanted = !projectGone && job.pause !== "suspended" && hasImage;
  if (status === "running" && !isWanted) return { do: "ask", reason: "paused" };
  const { run } = attempt;
  if (run.state !== "granted" && run.state !== "started") {
    const detail = "it is not wanted any more";
    return status === "cancel_requested" ? { do: "withdraw", attempt, run, detail } : offeredStep(facts, attempt);
  }
  // As long as its node does not tell it may run: only an operator's word that the machine is off ends this.
  return status === "cancel_requested" && !run.cancel ? { do: "stop", attempt } : wait;
}
