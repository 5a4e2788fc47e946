import { sql } from "kysely";
import { notify, notifying } from "../db/notify.ts";
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
  const { id } = await db
    .insertInto("work_item")
    .values(rowOf(work))
    .returning(["id", notifying(workTopic, work.kind)])
    .executeTakeFirstOrThrow();
  return id;
}

/** The same of many at once, all of one kind. */
export async function enqueueAll(db: Db, kind: string, work: readonly Omit<NewWork, "kind">[]): Promise<void> {
  if (work.length === 0) return;
  await db
    .insertInto("work_item")
    .values(work.map((each) => rowOf({ kind, ...each })))
    .execute();
  await notify(db, workTopic, kind);
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

export interface Claim {
  kinds: readonly string[];
  owner: string;
  leaseMs: number;
  /** No more than that. */
  limit: number;
}

/**
 * Leases due items whose keys are idle, the oldest first, by one statement; fewer than `limit` when there are no more. Safe to
 * call from many workers: a unique index lets one item of a key run at a time, whichever worker wins.
 */
export async function claimAll(db: Db, { kinds, owner, leaseMs, limit }: Claim): Promise<ClaimedWork[]> {
  const { rows } = await sql<ClaimedWork>`
    update work_item set state = 'running', attempt = attempt + 1, lease_owner = ${owner},
      lease_until = now() + ${leaseMs} * interval '1 millisecond'
    where id = any(array(
      select w.id from work_item w
      where w.state = 'queued' and w.run_at <= now() and w.kind = any(${kinds})
        and not exists (
          select from work_item earlier
          where earlier.key = w.key
            and (earlier.state = 'running' or (earlier.state = 'queued' and earlier.id < w.id)))
      order by w.run_at, w.id limit ${limit}
      for update skip locked))
    returning id, kind, key, payload, attempt, max_attempts as "maxAttempts",
      (extract(epoch from now() - created_at) * 1000)::int8 as "ageMs"`
    .execute(db)
    .catch((error: { code?: string }) => {
      // Another worker started an item of one of these keys in this instant.
      if (error.code === "23505") return { rows: [] };
      throw error;
    });
  return rows;
}

/** Of `kinds`, those of which something is due. It may have to wait for its key. */
export async function listDueKinds(db: Db, kinds: readonly string[]): Promise<string[]> {
  const { rows } = await sql<{ kind: string }>`select distinct kind from work_item
    where state = 'queued' and run_at <= now() and kind = any(${kinds})`.execute(db);
  return rows.map(({ kind }) => kind);
}

/** Extends the leases of many; returns the ids of those that were not lost. */
export async function renewAll(
  db: Db,
  items: readonly Pick<ClaimedWork, "id" | "attempt">[],
  owner: string,
  leaseMs: number,
): Promise<Set<number>> {
  const { rows } = await sql<{ id: number }>`
    update work_item set lease_until = now() + ${leaseMs} * interval '1 millisecond'
    from unnest(${items.map(({ id }) => id)}::int8[], ${items.map(({ attempt }) => attempt)}::int[]) as held (id, attempt)
    where work_item.id = held.id and work_item.attempt = held.attempt and state = 'running' and lease_owner = ${owner}
    returning work_item.id`.execute(db);
  return new Set(rows.map(({ id }) => id));
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
  // One that is being renewed or finished at this moment has a worker.
  const expired = db
    .selectFrom("work_item")
    .select("id")
    .where("state", "=", "running")
    .where("lease_until", "<", sql<Date>`now()`)
    .forUpdate()
    .skipLocked();
  const { numUpdatedRows } = await db
    .updateTable("work_item")
    .set({ state: "queued", lease_owner: null, lease_until: null })
    .where("id", "in", expired)
    .executeTakeFirst();
  return Number(numUpdatedRows);
}
