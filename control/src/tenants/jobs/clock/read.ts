import type { Clock } from "@svc/runtime/clock";
import { sql } from "kysely";
import type { Db } from "../../../stores/db/pool.ts";
import type { Job } from "../../../stores/db/tables.ts";
import type { Moment } from "./steps.ts";

/** The moment, and when the first job is due; null: none ever. Of all that a round needs this alone is asked in every one. */
export async function readClock(db: Db, clock: Clock): Promise<Moment & { firstDueAt: Date | null }> {
  const beganAtMs = clock.bootMs();
  const { rows } = await sql<{ now: Date; firstDueAt: Date | null }>`
    select clock_timestamp() as now,
      (select next_fire_at from job where next_fire_at is not null order by next_fire_at limit 1) as "firstDueAt"`.execute(
    db,
  );
  const bootMs = clock.bootMs();
  const [row] = rows;
  if (row === undefined) throw new Error("the database does not tell the time");
  return { ...row, bootMs, withinMs: bootMs - beganAtMs };
}

/** Jobs that are due, longest first, held until the transaction ends. What somebody else holds has its turn in another round. */
export async function lockDue(tx: Db, now: Date, limit: number): Promise<(Job & { next_fire_at: Date })[]> {
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

/** For how many seconds the job that is due longest has been so; 0 when none is. */
export async function readClockLag(db: Db): Promise<number> {
  const { rows } = await sql<{ seconds: number }>`
    select coalesce(greatest(extract(epoch from clock_timestamp() - min(next_fire_at)), 0), 0)::float8 as seconds
    from job where next_fire_at is not null`.execute(db);
  return rows[0]?.seconds ?? 0;
}
