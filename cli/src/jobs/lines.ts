import {
  isJobRunOver,
  type JobAttemptReply,
  type JobPauseReason,
  type JobReply,
  type JobRunReply,
  type JobRunStatus,
  plural,
} from "@svc/proto";
import type { Screen } from "../command.ts";
import { formatAge, formatDuration } from "../format.ts";
import type { Ending } from "../logs/ending.ts";

type Style = Parameters<Screen["paint"]>[0];

const styles: Readonly<Record<JobRunStatus, Style>> = {
  queued: "yellow",
  waiting: "yellow",
  running: "cyan",
  cancel_requested: "yellow",
  succeeded: "green",
  failed: "red",
  timed_out: "red",
  canceled: "dim",
  skipped: "dim",
};

/** A status as a person reads it, in its colour. */
export const runState = ({ status }: Pick<JobRunReply, "status">, { paint }: Pick<Screen, "paint">): string =>
  paint(styles[status], status.replaceAll("_", " "));

/** How a schedule reads: with its zone, unless that is UTC. */
export const scheduleOf = ({ schedule, timezone }: Pick<JobReply, "schedule" | "timezone">): string =>
  timezone === "UTC" ? schedule : `${schedule} ${timezone}`;

/** A moment at the clock of a zone, to the minute; in UTC for one that this machine does not know. */
function atClock(timestamp: string, timeZone: string): string {
  const format = (zone: string) =>
    new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "short", timeZone: zone }).format(
      new Date(timestamp),
    );
  try {
    return format(timeZone);
  } catch {
    return `${format("UTC")} UTC`;
  }
}

/** How long it is until then: `in 3 h 5 min`. */
export function formatAhead(timestamp: string, now: Date): string {
  const aheadMs = Date.parse(timestamp) - now.getTime();
  return aheadMs <= 0 ? "now" : `in ${formatDuration(aheadMs)}`;
}

const pauses: Readonly<Record<JobPauseReason, { word: string; sentence: string }>> = {
  stopped: {
    word: "stopped",
    sentence: "Production is stopped, and its jobs with it: `svc start` schedules them again",
  },
  suspended: {
    word: "suspended",
    sentence: "The project is suspended: its jobs are scheduled again once an administrator resumes it",
  },
  plan: {
    word: "plan",
    sentence: "The plan has no room for it: take jobs out of the manifest, or ask an administrator for another plan",
  },
};

/** When a job fires next, at the clock of its zone; or in a word why it does not. */
export function nextOf(job: JobReply, { paint, now }: Pick<Screen, "paint" | "now">): string {
  if (job.pauseReason !== null) return paint("yellow", `paused (${pauses[job.pauseReason].word})`);
  if (!job.enabled) return paint("dim", job.sourceEnabled ? "disabled" : "disabled (manifest)");
  if (job.nextFireAt === null) return paint("dim", "not scheduled");
  return `${atClock(job.nextFireAt, job.timezone)}, ${formatAhead(job.nextFireAt, now)}`;
}

/** How the latest run is, and since when. */
export function lastOf({ lastRun }: Pick<JobReply, "lastRun">, screen: Pick<Screen, "paint" | "now">): string {
  if (lastRun === null) return screen.paint("dim", "never ran");
  return `${runState(lastRun, screen)} ${formatAge(momentOf(lastRun), screen.now)}`;
}

/** What a list of runs goes by: the end of one that is over, else its begin. */
export const momentOf = (run: JobRunReply): string => run.finishedAt ?? run.startedAt ?? run.createdAt;

/** Why a job is not scheduled, and what helps; nothing for one that is. */
export function whyNotScheduled(job: JobReply): string[] {
  if (job.pauseReason !== null) return [pauses[job.pauseReason].sentence];
  if (job.enabled && job.nextFireAt !== null) return [];
  if (job.enabled)
    return [`It never fires: the platform does not know the zone ${job.timezone}, or no day is meant by its schedule`];
  if (!job.sourceEnabled) return ["Its manifest says `enabled: false`: change that, and deploy"];
  return [`It was disabled: \`svc jobs enable ${job.name}\` has it scheduled again`];
}

/** What of the latest run needs a look: a failure in the platform's words. */
export function troubleOf({ lastRun, lastSuccessAt }: JobReply, now: Date): string[] {
  if (lastRun === null || !["failed", "timed_out"].includes(lastRun.status)) return [];
  const since = lastSuccessAt === null ? "it never succeeded" : `last success ${formatAge(lastSuccessAt, now)}`;
  return [`${reasonOf(lastRun) ?? "Its last run failed"}; ${since}. Read it with \`svc jobs logs ${lastRun.id}\``];
}

/** Why a run is as it is, in the platform's words; null: there is nothing to say. */
export function reasonOf({ message, reason, exitCode, missed }: JobRunReply): string | null {
  const text = message ?? reason ?? (exitCode === null || exitCode === 0 ? null : `exit code ${exitCode}`);
  if (text === null) return null;
  const missing = missed > 1 ? ` (${missed} times)` : "";
  return `${text.split("\n")[0]?.replace(/\.$/, "") ?? ""}${missing}`;
}

/** For how long a run goes or went on; "-" for one that never began. */
export function tookOf({ startedAt, finishedAt, status }: JobRunReply, now: Date): string {
  if (startedAt === null || (finishedAt === null && isJobRunOver(status))) return "-";
  const endMs = finishedAt === null ? now.getTime() : Date.parse(finishedAt);
  return formatDuration(Math.max(0, endMs - Date.parse(startedAt)));
}

const verbs: Readonly<Record<JobRunStatus, string>> = {
  queued: "The run is queued",
  waiting: "The run waits",
  running: "The run goes on",
  cancel_requested: "The run was asked to end",
  succeeded: "The run succeeded",
  failed: "The run failed",
  timed_out: "The run took too long, and was ended",
  canceled: "The run was canceled",
  skipped: "The run was skipped",
};

/** What the output of a run ends with: what became of it, and where to read on. */
export function endingOfRun(run: JobRunReply, now: Date): Ending {
  const { id, status, attemptCount, retryAt } = run;
  const reason = reasonOf(run);
  const attempts = attemptCount > 1 ? `, after ${plural(attemptCount, "attempt")}` : "";
  const next = retryAt === null || isJobRunOver(status) ? "" : `, the next attempt ${formatAhead(retryAt, now)}`;
  const text = `${verbs[status]}${attempts}${reason === null ? "" : `: ${reason}`}${next}`;
  if (!isJobRunOver(status)) return { text: `${text}. Follow it with \`svc jobs logs ${id} --follow\``, mark: "note" };
  return { text, mark: status === "failed" || status === "timed_out" ? "failed" : "done" };
}

/** How an attempt went, in a line. */
export function attemptLine({ attempt, status, exitCode, message }: JobAttemptReply): string {
  const why = message ?? (exitCode === null || exitCode === 0 ? null : `exit code ${exitCode}`);
  return `Attempt ${attempt} ${status.replaceAll("_", " ")}${why === null ? "" : `: ${why.split("\n")[0]}`}`;
}
