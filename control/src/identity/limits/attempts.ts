import { createHash } from "node:crypto";
import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";

/** How much there is to begin with, and after how many seconds one more. */
export interface Allowance {
  capacity: number;
  secondsPerToken: number;
}

/** Whose attempts are counted together. Stored as hashes: they may be addresses, or what somebody typed. */
export interface Counted {
  what: string;
  whose: string;
  /** Where they come from, when attempts from elsewhere are counted apart. */
  from?: string;
}

const digestOf = (text: string): string => createHash("sha256").update(text).digest("base64url").slice(0, 22);

/** Begins with the same for `whose`, from wherever. */
const keyOf = ({ what, whose, from }: Counted): string =>
  [what, digestOf(whose), ...(from === undefined ? [] : [digestOf(from)])].join(":");

/**
 * Takes one attempt; null when it may be made, else the seconds to wait for the next. Holds for all replicas together,
 * also for attempts that are made at once.
 */
export async function takeAttempt(db: Db, counted: Counted, allowance: Allowance): Promise<number | null> {
  const { capacity, secondsPerToken } = allowance;
  const key = keyOf(counted);
  const left = sql`least(${capacity}::float8,
    b.tokens + greatest(0, extract(epoch from clock_timestamp() - b.at)) / ${secondsPerToken}::float8)`;
  const { rows } = await sql`
    insert into attempt_bucket as b (key, tokens, at) values (${key}, ${capacity - 1}::float8, clock_timestamp())
    on conflict (key) do update set tokens = ${left} - 1, at = clock_timestamp() where ${left} >= 1
    returning 1`.execute(db);
  if (rows.length > 0) return null;
  const { rows: seen } = await sql<{ tokens: number }>`
    select ${left} as tokens from attempt_bucket b where b.key = ${key}`.execute(db);
  return Math.max(1, Math.ceil((1 - (seen[0]?.tokens ?? 0)) * secondsPerToken));
}

/** Gives back an attempt that turned out to be none. */
export async function refund(db: Db, counted: Counted, { capacity }: Allowance): Promise<void> {
  await sql`update attempt_bucket set tokens = least(${capacity}::float8, tokens + 1) where key = ${keyOf(counted)}`.execute(
    db,
  );
}

/** Forgets what was counted, from wherever it came. */
export async function forgetAttempts(db: Db, counted: Omit<Counted, "from">): Promise<void> {
  await sql`delete from attempt_bucket where starts_with(key, ${keyOf(counted)})`.execute(db);
}

/** No allowance takes longer to fill up again, so a bucket that was left alone for so long says nothing. */
const fullAfterHours = 24;
const bucketsMax = 100_000;

/** Deletes what has filled up, and beyond a bound the longest untouched. Returns how many went. */
export async function deleteFullBuckets(db: Db): Promise<number> {
  const full = await sql`delete from attempt_bucket
    where at < now() - ${fullAfterHours} * interval '1 hour'`.execute(db);
  const beyond = await sql`delete from attempt_bucket where at < (
    select at from attempt_bucket order by at desc offset ${bucketsMax} limit 1)`.execute(db);
  return Number(full.numAffectedRows ?? 0n) + Number(beyond.numAffectedRows ?? 0n);
}
