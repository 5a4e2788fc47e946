import { isJobRunOver, type JobRunReply } from "@svc/proto";

const minuteMs = 60_000;

/** A start of an attempt, as its command noted it. */
export interface Start {
  run: string;
  attempt: number;
}

type Told = Pick<
  JobRunReply,
  "id" | "jobName" | "trigger" | "status" | "reason" | "attemptCount" | "scheduledAt" | "missed"
>;

/** What must not be: nothing of it is there when all went well. */
export interface StartsVerdict {
  /** Attempts that were started more than once. */
  twice: string[];
  /** Runs that are said to have succeeded, and whose last attempt was never started. */
  unseen: string[];
  /** Attempts that were started, and of which control says that there never were any. */
  unheard: string[];
  /** Runs that are not over. */
  open: string[];
  /** Instants of a job that are due each minute of which nothing is told, or without a reason. */
  lost: string[];
  /** Instants of such a job that more than one run is for. */
  doubled: string[];
}

export interface Due {
  /** Jobs that are due each minute. */
  names: readonly string[];
  /** From the first such minute to the last one, in milliseconds since 1970. */
  firstMs: number;
  lastMs: number;
}

export function judgeStarts(starts: readonly Start[], runs: readonly Told[], due: Due): StartsVerdict {
  const seen = Map.groupBy(starts, ({ run, attempt }) => `${run} ${attempt}`);
  const begun = new Map(runs.map(({ id, attemptCount }) => [id, attemptCount]));
  const minutes = due.names.map((name) => ({ name, told: instantsOf(runs, name) }));
  const at = (name: string, ms: number) => `${name} ${new Date(ms).toISOString()}`;
  return {
    twice: [...seen].flatMap(([key, { length }]) => (length > 1 ? [`${key}: ${length}`] : [])),
    unseen: runs.flatMap(({ id, status, attemptCount }) =>
      status === "succeeded" && !seen.has(`${id} ${attemptCount}`) ? [`${id} ${attemptCount}`] : [],
    ),
    unheard: starts.flatMap(({ run, attempt }) => (attempt > (begun.get(run) ?? 0) ? [`${run} ${attempt}`] : [])),
    open: runs.flatMap(({ id, status }) => (isJobRunOver(status) ? [] : [`${id} ${status}`])),
    lost: minutes.flatMap(({ name, told }) =>
      Array.from({ length: (due.lastMs - due.firstMs) / minuteMs + 1 }, (_, index) => due.firstMs + index * minuteMs)
        .filter((ms) => !told.includes(ms))
        .map((ms) => at(name, ms)),
    ),
    doubled: minutes.flatMap(({ name, told }) =>
      told.filter((ms, index) => told.indexOf(ms) !== index).map((ms) => at(name, ms)),
    ),
  };
}

/** Minutes of which runs of the job tell what became of them. */
function instantsOf(runs: readonly Told[], name: string): number[] {
  return runs.flatMap(({ jobName, trigger, status, reason, scheduledAt, missed }) => {
    const isTold = status !== "skipped" || reason !== null;
    if (jobName !== name || trigger !== "schedule" || scheduledAt === null || !isTold) return [];
    const newestMs = Date.parse(scheduledAt);
    return Array.from({ length: Math.max(1, missed) }, (_, back) => newestMs - back * minuteMs);
  });
}
