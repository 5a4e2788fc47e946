import { sql } from "kysely";
import type { Db } from "../db/pool.ts";

/**
 * Topic on which work that may be taken up is announced, by its kind: whoever does none of that kind need not look.
 * Workers also look by themselves.
 */
export const workTopic = "svc_work";

export interface NewWork {
  kind: string;
  /** Items of one key run one after another, oldest first. */
  key: string;
  payload: unknown;
  /** Not before; defaults to now. */
  runAt?: Date;
}

export interface ClaimedWork {
  id: number;
  kind: string;
  key: string;
  payload: unknown;
  /** Counts from 1; together with `owner` it fences late writes of a stalled worker. */
  attempt: number;
  maxAttempts: number;
  /** Since it was enqueued, at the moment of the claim. */
  ageMs: number;
}

/** Adds work in the caller's transaction: it exists exactly when the caller's other rows do. Returns its id. */
export async function enqueue(db: Db, work: NewWork): Promise<number> {
  const row = await db.insertInto("work_item").values(rowOf(work)).returning("id").executeTakeFirstOrThrow();
  await announce(db, work.kind);
  return row.id;
}

/** The same of many at once, all of one kind. */
export async function enqueueAll(db: Db, kind: string, work: readonly Omit<NewWork, "kind">[]): Promise<void> {
  if (work.length === 0) return;
  await db
    .insertInto("work_item")
    .values(work.map((each) => rowOf({ kind, ...each })))
    .execute();
  await announce(db, kind);
}

/** Whether work of a key is still to do. */
export async function hasOpenWork(db: Db, key: string): Promise<boolean> {
  const item = await db
    .selectFrom("work_item")
    .select("id")
    .where("key", "=", key)
    .where("state", "in", ["queued", "running"])
    .limit(1)
    .executeTakeFirst();
  return item !== undefined;
}

const rowOf = ({ kind, key, payload, runAt }: NewWork) => ({
  kind,
  key,
  payload: JSON.stringify(payload),
  ...(runAt && { run_at: runAt }),
});

const announce = (db: Db, kind: string) => sql`select pg_notify(${workTopic}, ${kind})`.execute(db);

/**
 * Leases the oldest due item whose key is idle; null when there is none. Safe to call from
 * many workers: a unique index lets one item of a key run at a time, whichever worker wins.
 */
export async function claimWork(
  db: Db,
  { kinds, owner, leaseMs }: { kinds: readonly string[]; owner: string; leaseMs: number },
): Promise<ClaimedWork | null> {
  const { rows } = await sql<ClaimedWork>`
    update work_item set state = 'running', attempt = attempt + 1, lease_owner = ${owner},
      lease_until = now() + ${leaseMs} * interval '1 millisecond'
    where id = (
      select w.id from work_item w
      where w.state = 'queued' and w.run_at <= now() and w.kind = any(${kinds})
        and not exists (
          select from work_item earlier
          where earlier.key = w.key
            and (earlier.state = 'running' or (earlier.state = 'queued' and earlier.id < w.id)))
      order by w.run_at, w.id limit 1
      for update skip locked)
    returning id, kind, key, payload, attempt, max_attempts as "maxAttempts",
      (extract(epoch from now() - created_at) * 1000)::int8 as "ageMs"`
    .execute(db)
    .catch((error: { code?: string }) => {
      // Another worker started an item of the same key in this instant.
      if (error.code === "23505") return { rows: [] };
      throw error;
    });
  return rows[0] ?? null;
}

/** Extends the lease; false when it was lost, and then the worker must stop. */
export async function renewWork(db: Db, item: ClaimedWork, owner: string, leaseMs: number): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable("work_item")
    .set({ lease_until: sql`now() + ${leaseMs} * interval '1 millisecond'` })
    .where("id", "=", item.id)
    .where("state", "=", "running")
    .where("lease_owner", "=", owner)
    .where("attempt", "=", item.attempt)
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

/** How a finished attempt ended: done for ever, given up, or to be tried again; with `refund` it does not count. */
export type WorkOutcome =
  | { state: "done" }
  | { state: "failed"; error: string }
  | { retryAfterMs: number; error?: string; refund?: boolean };

/** Records the outcome; false when the lease was lost meanwhile and another worker has the item. */
export async function finishWork(db: Db, item: ClaimedWork, owner: string, outcome: WorkOutcome): Promise<boolean> {
  const change =
    "state" in outcome
      ? {
          state: outcome.state,
          error: outcome.state === "failed" ? outcome.error : null,
          finished_at: sql<Date>`now()`,
        }
      : {
          state: "queued" as const,
          error: outcome.error ?? null,
          run_at: sql<Date>`now() + ${outcome.retryAfterMs} * interval '1 millisecond'`,
          // A planned wait is not a failed attempt.
          ...(outcome.refund && { attempt: sql<number>`attempt - 1` }),
        };
  const { numUpdatedRows } = await db
    .updateTable("work_item")
    .set({ ...change, lease_owner: null, lease_until: null })
    .where("id", "=", item.id)
    .where("state", "=", "running")
    .where("lease_owner", "=", owner)
    .where("attempt", "=", item.attempt)
    .executeTakeFirst();
  if (numUpdatedRows === 1n) await announceNext(db, item.key);
  return numUpdatedRows === 1n;
}

/**
 * What waited for the item's key, of whatever kind, may run now. Only once the outcome is committed: what comes later
 * finds the key idle when it is announced itself.
 */
async function announceNext(db: Db, key: string): Promise<void> {
  await sql`select pg_notify(${workTopic}, kind)
    from (select distinct kind from work_item where key = ${key} and state = 'queued') as waiting`.execute(db);
}

/** Gives items of dead workers back to the queue. Returns how many. */
export async function reapWork(db: Db): Promise<number> {
  const { numUpdatedRows } = await db
    .updateTable("work_item")
    .set({ state: "queued", lease_owner: null, lease_until: null })
    .where("state", "=", "running")
    .where("lease_until", "<", sql<Date>`now()`)
    .executeTakeFirst();
  return Number(numUpdatedRows);
}
