import type { Clock } from "@svc/runtime/clock";
import { type LoopOptions, runLoop } from "@svc/runtime/loop";
import { createWake } from "@svc/runtime/wake";
import type { Fleet } from "../../fleet/cluster/fleet.ts";
import { jobRunTopic, jobTopic } from "../../fleet/cluster/topics.ts";
import type { Log } from "../../log.ts";
import type { Listener } from "../../stores/db/listen.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Etcd, Leadership } from "../../stores/etcd/index.ts";
import { createJobClock } from "./clock/apply.ts";
import { type JobClockRows, jobClockRows } from "./clock/rows.ts";
import { type JobPauseRows, jobPauseRows, settlePauses } from "./definitions/pauses.ts";
import { driveJobRuns } from "./runs/round.ts";
import { type JobRunRows, jobRunRows } from "./runs/rows.ts";

/** What is asked of Postgres, by who asks. */
export interface JobRows {
  runs: JobRunRows;
  clock: JobClockRows;
  pauses: JobPauseRows;
}

export const jobRows = (db: Db): JobRows => ({
  ...{ runs: jobRunRows(db), clock: jobClockRows(db), pauses: jobPauseRows(db) },
});

export interface LeadJobsDeps {
  clock: Clock;
  rows: JobRows;
  etcd: Etcd;
  fleet: Fleet;
  leadership: Leadership;
  listener: Pick<Listener, "on">;
  log: Log;
  /** Who hears of the rounds of a loop. */
  heardBy: (loop: string) => Pick<LoopOptions, "onError" | "onRound">;
}

/** Pauses between attempts end, and waits for room. */
const runsMs = 1_000;
/** A burst of changes is not as many rounds. */
const runsRestMs = 50;
/** How soon scheduled jobs that are due begin, unless it is known when the next one is. */
const clockMs = 1_000;
/** How soon a changed plan reaches scheduled jobs. */
const pausesMs = 5_000;

/** Begins scheduled jobs when they are due and drives their runs until the leadership ends. Whoever leads takes over first. */
export async function leadJobs(deps: LeadJobsDeps): Promise<void> {
  const { clock, rows, etcd, fleet, leadership, listener, log } = deps;
  const { epoch, signal } = leadership;
  const [due, runs] = [createWake(clock), createWake(clock)];
  using _due = listener.on(jobTopic, due.signal);
  using _asked = listener.on(jobRunTopic, runs.signal);
  using _records = fleet.onChange("runs", runs.signal);
  const loop = (name: string) => ({ clock, signal, ...deps.heardBy(name) });
  await Promise.all([
    runLoop({ ...loop("job runs"), wake: runs, restMs: runsRestMs, periodMs: runsMs }, () =>
      driveJobRuns({ clock, rows: rows.runs, etcd, fleet, leadership, log }),
    ),
    runLoop(
      { ...loop("job clock"), wake: due, periodMs: clockMs },
      createJobClock({ clock, rows: rows.clock, epoch, log, lookAgain: due.signal, periodMs: clockMs }),
    ),
    runLoop({ ...loop("job pauses"), wake: createWake(clock), periodMs: pausesMs }, async () => {
      const count = await settlePauses({ rows: rows.pauses, log });
      if (count > 0) log.info({ count }, "scheduled jobs are paused, or not any more");
    }),
  ]);
}
