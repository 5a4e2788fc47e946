import type { Clock, Timer } from "@svc/runtime/clock";
import { sql } from "kysely";
import { inFencedTransaction } from "../../../fleet/cluster/fenced.ts";
import type { Log } from "../../../log.ts";
import type { Db } from "../../../stores/db/pool.ts";
import { beginRuns, skipMissed } from "../runs/begin.ts";
import { lockDue, readClock } from "./read.ts";
import { type ClockStep, clockStep, type Moment, wasSet } from "./steps.ts";

export interface ClockDeps {
  clock: Clock;
  db: Db;
  /** Of the leadership: what an earlier leader decided is not committed. */
  epoch: bigint;
  log: Log;
  /** Has the next round follow at once, or at the next instant. */
  lookAgain: () => void;
  /** For which of these it waits with a timer; the loop itself looks as often. */
  periodMs: number;
}

/** How many jobs one transaction begins. */
const atOnce = 200;

/**
 * The clock of scheduled jobs: each round begins what is due. A round that is cut short has begun nothing or all of what it took,
 * and what runs is written with the instant that it is for, which there is once per job.
 */
export function createJobClock(deps: ClockDeps): () => Promise<void> {
  const { clock, db, log, lookAgain, periodMs } = deps;
  let before: Moment | null = null;
  let timer: Timer | null = null;
  return async () => {
    const { firstDueAt, ...moment } = await readClock(db, clock);
    const last = before;
    before = moment;
    if (last !== null && wasSet(last, moment)) {
      log.warn({ from: last.now, to: moment.now }, "a clock was set: scheduled jobs wait for a round");
      return;
    }
    if (firstDueAt === null) return;
    const waitMs = firstDueAt.getTime() - moment.now.getTime();
    if (waitMs > 0) {
      // What begins at the full minute is not to wait for the period.
      if (waitMs < periodMs) {
        timer?.[Symbol.dispose]();
        timer = clock.after(Math.ceil(waitMs), lookAgain).unref();
      }
      return;
    }
    const begun = await beginDue(deps, moment.now);
    if (begun.taken === atOnce) lookAgain();
    if (begun.taken > 0) log.info({ ...begun }, "scheduled jobs were due");
  };
}

async function beginDue(
  { db, epoch, log }: ClockDeps,
  now: Date,
): Promise<{ taken: number; runs: number; missed: number }> {
  return inFencedTransaction(db, epoch, async (tx) => {
    const due = await lockDue(tx, now, atOnce);
    const steps = due.map((job) => ({ job, step: clockStep(job, now) }));
    const missed = steps.flatMap(({ job, step }) => (step.missed === null ? [] : [{ job, ...step.missed }]));
    await skipMissed(tx, missed);
    const wanted = steps.flatMap(({ job, step: { run: fireAt } }) =>
      fireAt === null ? [] : [{ job, trigger: "schedule" as const, fireAt, requestedBy: null }],
    );
    const begun = await beginRuns(tx, wanted);
    await writeFires(
      tx,
      steps.map(({ job: { id }, step }) => ({ id, ...step })),
    );
    for (const { job, step } of steps) {
      if (step.nextFireAt !== null) continue;
      log.warn({ jobId: job.id, schedule: job.schedule, timezone: job.timezone }, "a scheduled job never fires again");
    }
    const runs = begun.filter((run) => run !== null).length;
    return { taken: due.length, runs, missed: missed.reduce((sum, { count }) => sum + count, 0) };
  });
}

async function writeFires(
  tx: Db,
  fires: readonly ({ id: string } & Pick<ClockStep, "lastFireAt" | "nextFireAt">)[],
): Promise<void> {
  if (fires.length === 0) return;
  await sql`
    update job set last_fire_at = fired.last_fire_at, next_fire_at = fired.next_fire_at
    from unnest(${fires.map(({ id }) => id)}::uuid[], ${fires.map((each) => each.lastFireAt)}::timestamptz[],
      ${fires.map((each) => each.nextFireAt)}::timestamptz[]) as fired (id, last_fire_at, next_fire_at)
    where job.id = fired.id`.execute(tx);
}
