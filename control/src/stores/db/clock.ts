import { type Clock, every } from "@svc/runtime/clock";
import { sql } from "kysely";
import type { Log } from "../../log.ts";
import { nextOffsetMs, type Reading } from "./dates.ts";
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

/** How soon it is known that the database's clock was set. */
const readEveryMs = 10_000;

/**
 * The machine's clock, but for dates: these are the database's, which all replicas share, and go on with the time since boot.
 * So a machine whose clock is off, or is set, dates as all others do. While the database is away it goes on as before.
 */
export async function followDatabaseClock(
  machine: Clock,
  db: Db,
  log: Log,
): Promise<Disposable & { clock: Clock; read(): Promise<void> }> {
  let offsetMs = (await readDatabase(machine, db)).offsetMs;
  const read = async (): Promise<void> => {
    offsetMs = nextOffsetMs(offsetMs, await readDatabase(machine, db));
  };
  let reading: Promise<void> | null = null;
  const timer = every(machine, readEveryMs, () => {
    if (reading !== null) return;
    reading = read()
      .catch((error: unknown) => log.debug({ err: error }, "the database does not tell the time"))
      .finally(() => {
        reading = null;
      });
  });
  return {
    clock: { ...machine, now: () => new Date(machine.bootMs() + offsetMs) },
    read,
    [Symbol.dispose]: () => timer[Symbol.dispose](),
  };
}

async function readDatabase(machine: Clock, db: Db): Promise<Reading> {
  const beforeMs = machine.bootMs();
  const at = await databaseClock(db);
  const withinMs = (machine.bootMs() - beforeMs) / 2;
  return { offsetMs: at.getTime() - beforeMs - withinMs, withinMs };
}
