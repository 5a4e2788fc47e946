import { sql } from "kysely";
import { inFencedTransaction } from "../../../fleet/cluster/fenced.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Job } from "../../../stores/db/tables.ts";
import { beginRuns, skipMissed } from "../runs/begin.ts";
import { type ClockStep, clockStep } from "./steps.ts";

/** What one look at jobs that were due has begun. */
export interface Begun {
  /** Jobs that were looked at. */
  taken: number;
  runs: number;
  /** Instants that nobody was there for. */
  missed: number;
  /** Those of the jobs that never fire again. */
  last: Pick<Job, "id" | "schedule" | "timezone">[];
}

/** What the clock of scheduled jobs asks of Postgres. */
export interface JobClockRows {
  /** The moment, and when the first job is due; null: none ever. Of all that a round needs this alone is asked in every one. */
  moment(): Promise<{ now: Date; firstDueAt: Date | null }>;
  /**
   * Begins what is due at `now`, of at most `limit` jobs, those first that are due longest: all of it or nothing, and what runs is
   * written with the instant that it is for, which there is once per job. @throws LeaderOutdated
   */
  beginDue(epoch: bigint, now: Date, limit: number): Promise<Begun>;
}

export const jobClockRows = (db: Db): JobClockRows => ({
  moment: () => readMoment(db),
  beginDue: (epoch, now, limit) => inFencedTransaction(db, epoch, (tx) => beginDue(tx, now, limit)),
});

async function readMoment(db: Db): Promise<{ now: Date; firstDueAt: Date | null }> {
  const { rows } = await sql<{ now: Date; firstDueAt: Date | null }>`
    select clock_timestamp() as now,
      (select next_fire_at from job where next_fire_at is not null order by next_fire_at limit 1) as "firstDueAt"`.execute(
    db,
  );
  const [row] = rows;
  if (row === undefined) throw new Error("the database does not tell the time");
  return row;
}

async function beginDue(tx: Db, now: Date, limit: number): Promise<Begun> {
  const due = await lockDue(tx, now, limit);
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
  return {
    taken: due.length,
    runs: begun.filter((run) => run !== null).length,
    missed: missed.reduce((sum, { count }) => sum + count, 0),
    last: steps.flatMap(({ job, step }) => (step.nextFireAt === null ? [job] : [])),
  };
}

/** Jobs that are due, longest first, held until the transaction ends. What somebody else holds has its turn in another round. */
async function lockDue(tx: Db, now: Date, limit: number): Promise<(Job & { next_fire_at: Date })[]> {
  const due = await tx
    .selectFrom("job")
    .selectAll()
    .where("next_fire_at", "<=", now)
    .orderBy("next_fire_at")
    .orderBy("id")
    .limit(limit)
    .forUpdate()
    .skipLocked()
    .execute();
  return due as (Job & { next_fire_at: Date })[];
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
