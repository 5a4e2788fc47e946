import { type Clock, every } from "@svc/runtime/clock";
import { sql } from "kysely";
import type { Log } from "../log.ts";
import type { Db } from "../stores/db/pool.ts";
import { secondsToWait, windowMs } from "./rate-window.ts";

/** Counts the requests of users whose plan limits them, together with the other replicas. */
export interface RateLimit extends AsyncDisposable {
  /** Counts a request; the seconds to wait when it is one too many, and then it is not counted. */
  take(userId: string, limit: number): number | null;
}

interface Count {
  /** Of the epoch. */
  minute: number;
  /** Of all replicas, in the minute before. */
  previous: number;
  /** Here, in this minute. */
  own: number;
  /** How many of these the other replicas can know of. */
  told: number;
  /** Elsewhere, as of the last time that we told. */
  others: number;
}

const tellEveryMs = 1_000;
/** Users remembered at once; the longest unseen are forgotten first, in their favour. */
const usersMax = 50_000;
const toldAtOnceMax = 5_000;
const minutesKept = 5;

/**
 * Each replica decides from its own count, at once, and tells the others through the database every second: together
 * they let through at most what arrives in a second or two beyond the limit. Without the database each goes by itself.
 */
export function createRateLimit({ clock, db, log }: { clock: Clock; db: Db; log: Log }): RateLimit {
  const counts = new Map<string, Count>();
  const untold = new Set<string>();
  let telling: Promise<void> | null = null;

  function countOf(userId: string, minute: number): Count {
    const known = counts.get(userId);
    if (known !== undefined && known.minute === minute) return known;
    const previous = known?.minute === minute - 1 ? known.own + known.others : 0;
    const fresh = { minute, previous, own: 0, told: 0, others: 0 };
    counts.delete(userId);
    counts.set(userId, fresh);
    const oldest = counts.size > usersMax ? counts.keys().next().value : undefined;
    if (oldest !== undefined) counts.delete(oldest);
    return fresh;
  }

  async function tell(): Promise<void> {
    const minute = Math.floor(clock.now().getTime() / windowMs);
    const batch = [...untold].slice(0, toldAtOnceMax).map((userId) => ({ userId, count: countOf(userId, minute) }));
    for (const { userId } of batch) untold.delete(userId);
    const news = batch.map(({ userId, count }) => ({ userId, count, requests: count.own - count.told }));
    try {
      const totals = await addRequests(db, minute, news);
      for (const { count, requests } of news) count.told += requests;
      for (const { userId, requests, previous } of totals) {
        const count = counts.get(userId);
        if (count?.minute !== minute) continue;
        count.others = requests - count.told;
        count.previous = Math.max(count.previous, previous);
      }
    } catch (error) {
      log.warn({ err: error }, "the other replicas were not told how many requests there were");
    }
  }
  // Not while the last time is still under way.
  const timer = every(clock, tellEveryMs, () => {
    if (untold.size === 0 || telling !== null) return;
    telling = tell().finally(() => {
      telling = null;
    });
  });

  return {
    take(userId, limit) {
      const at = clock.now().getTime();
      const count = countOf(userId, Math.floor(at / windowMs));
      const { previous, own, others } = count;
      const wait = secondsToWait({ previous, current: own + others, elapsedMs: at % windowMs }, limit);
      if (wait !== null) return wait;
      count.own += 1;
      untold.add(userId);
      return null;
    },
    async [Symbol.asyncDispose]() {
      timer[Symbol.dispose]();
      await telling;
    },
  };
}

/** Adds to what was counted in `minute`, and returns what all replicas counted in it and in the one before. */
async function addRequests(
  db: Db,
  minute: number,
  news: readonly { userId: string; requests: number }[],
): Promise<{ userId: string; requests: number; previous: number }[]> {
  const { rows } = await sql<{ userId: string; requests: number; previous: number }>`
    with forgotten as (delete from request_window where minute < ${minute - minutesKept}::int),
    added as (
      insert into request_window as w (user_id, minute, requests)
      select user_id, ${minute}::int, requests
      from unnest(${news.map(({ userId }) => userId)}::uuid[], ${news.map(({ requests }) => requests)}::int[]) as news (user_id, requests)
      order by user_id
      on conflict (user_id, minute) do update set requests = w.requests + excluded.requests
      returning w.user_id, w.requests)
    select added.user_id as "userId", added.requests, coalesce(before.requests, 0) as previous
    from added left join request_window before on before.user_id = added.user_id and before.minute = ${minute - 1}::int`.execute(
    db,
  );
  return rows;
}
