import type { Clock } from "@svc/runtime/clock";
import { sql } from "kysely";
import type { Db } from "./pool.ts";

/**
 * By how many ms `clock` is at least ahead of the database's clock, and within how many that could be told: what seems to be
 * the clock may be the answer's way there or back.
 */
export async function clockOffset(clock: Clock, db: Db): Promise<{ offsetMs: number; withinMs: number }> {
  const before = clock.now().getTime();
  const at = await databaseClock(db);
  const after = clock.now().getTime();
  const withinMs = (after - before) / 2;
  const middleMs = (before + after) / 2 - at.getTime();
  return { offsetMs: Math.sign(middleMs) * Math.max(0, Math.abs(middleMs) - withinMs), withinMs };
}

/** Tells what time it is; tests may have one of their own. */
export type DatabaseClock = (db: Db) => Promise<Date>;

/**
 * The database's, which is the same one for all replicas, at this very moment: in a transaction `now()` is when it
 * began, and it may have waited for a lock since.
 */
export const databaseClock: DatabaseClock = async (db) => {
  const { rows } = await sql<{ at: Date }>`select clock_timestamp() as at`.execute(db);
  const [row] = rows;
  if (row === undefined) throw new Error("the database does not tell the time");
  return row.at;
};
