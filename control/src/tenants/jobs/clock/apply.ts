import type { Clock, Timer } from "@svc/runtime/clock";
import type { Log } from "../../../log.ts";
import type { JobClockRows } from "./rows.ts";
import { type Moment, wasSet } from "./steps.ts";

export interface ClockDeps {
  clock: Clock;
  rows: JobClockRows;
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
  const { clock, rows, epoch, log, lookAgain, periodMs } = deps;
  let before: Moment | null = null;
  let timer: Timer | null = null;
  return async () => {
    const { firstDueAt, ...moment } = await readClock(rows, clock);
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
    const { last: ending, ...begun } = await rows.beginDue(epoch, moment.now, atOnce);
    for (const { id: jobId, schedule, timezone } of ending)
      log.warn({ jobId, schedule, timezone }, "a scheduled job never fires again");
    if (begun.taken === atOnce) lookAgain();
    if (begun.taken > 0) log.info({ ...begun }, "scheduled jobs were due");
  };
}

async function readClock(rows: JobClockRows, clock: Clock): Promise<Moment & { firstDueAt: Date | null }> {
  const beganAtMs = clock.bootMs();
  const moment = await rows.moment();
  const bootMs = clock.bootMs();
  return { ...moment, bootMs, withinMs: bootMs - beganAtMs };
}
