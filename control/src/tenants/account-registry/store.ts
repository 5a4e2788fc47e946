import { limits } from "@svc/proto";
import type { StoredManifest } from "@svc/registry";
import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import type { Kept } from "./rules.ts";

/** Longer than a token lasts by the registry's clock. */
const pushMs = (limits.registryTokenSeconds + 120) * 1000;
/** How long a look that was killed keeps others from pushing. */
export const cleaningMs = 60_000;

/** Digests that a manifest names, and the bytes of those that are blobs. */
export type Parts = Record<string, number | null>;

const inMs = (ms: number) => sql<Date>`now() + ${ms} * interval '1 millisecond'`;
const isClean = sql<boolean>`coalesce(account_repository.cleaning_until < now(), true)`;

/** What an account calls its repositories. */
export async function listNames(db: Db, userId: string): Promise<string[]> {
  const rows = await db
    .selectFrom("account_repository")
    .select("name")
    .where("user_id", "=", userId)
    .orderBy("name")
    .execute();
  return rows.map(({ name }) => name);
}

/**
 * Notes that the account is about to push there, before it gets the token: `full` when it has as many repositories as
 * may be, `cleaning` while what no tag names is being deleted there. Needs the user's row locked.
 */
export async function notePush(tx: Db, userId: string, name: string): Promise<"noted" | "full" | "cleaning"> {
  const { count } = await tx
    .selectFrom("account_repository")
    .select((row) => row.fn.countAll<number>().as("count"))
    .where("user_id", "=", userId)
    .where("name", "!=", name)
    .executeTakeFirstOrThrow();
  if (count >= limits.accountRepositoriesMax) return "full";
  const noted = await tx
    .insertInto("account_repository")
    .values({ user_id: userId, name, push_until: inMs(pushMs) })
    .onConflict((conflict) =>
      conflict
        .columns(["user_id", "name"])
        .doUpdateSet({ push_until: inMs(pushMs) })
        .where(isClean),
    )
    .returning("name")
    .executeTakeFirst();
  return noted === undefined ? "cleaning" : "noted";
}

/** How long it may still be that somebody pushes into one of the account's repositories, in ms. */
export async function pushesLeftMs(db: Db, userId: string): Promise<number> {
  const { left } = await db
    .selectFrom("account_repository")
    .select(sql<number>`coalesce(extract(epoch from max(push_until) - now()) * 1000, 0)::int8`.as("left"))
    .where("user_id", "=", userId)
    .executeTakeFirstOrThrow();
  return Math.max(0, Number(left));
}

/** Repositories into which nobody can push any more, and which nobody has looked through since. */
export async function listLeft(db: Db, count: number): Promise<{ userId: string; name: string }[]> {
  return db
    .selectFrom("account_repository")
    .select(["user_id as userId", "name"])
    .where("push_until", "<", sql<Date>`now()`)
    .where(sql<boolean>`coalesce(looked_at < push_until, true)`)
    .where(isClean)
    .orderBy("push_until")
    .limit(count)
    .execute();
}

/** Keeps everybody from pushing there, if nobody can and nobody else does it. */
export async function claimCleaning(db: Db, userId: string, name: string): Promise<boolean> {
  const claimed = await db
    .updateTable("account_repository")
    .set({ cleaning_until: inMs(cleaningMs) })
    .where("user_id", "=", userId)
    .where("name", "=", name)
    .where("push_until", "<", sql<Date>`now()`)
    .where(isClean)
    .returning("name")
    .executeTakeFirst();
  return claimed !== undefined;
}

/** Lets push there again. One that is `isFree` takes none of the account's places any more. */
export async function endCleaning(
  db: Db,
  userId: string,
  name: string,
  { isFree }: { isFree: boolean },
): Promise<void> {
  // More than one look takes, or told meanwhile.
  const hasNoted = sql<boolean>`exists (select from account_push as noted
    where noted.user_id = account_repository.user_id and noted.name = account_repository.name)`;
  if (isFree)
    await db
      .deleteFrom("account_repository")
      .where("user_id", "=", userId)
      .where("name", "=", name)
      .where("push_until", "<", sql<Date>`now()`)
      .where(({ not }) => not(hasNoted))
      .execute();
  // What is free is gone by now.
  await db
    .updateTable("account_repository")
    .set({ cleaning_until: null, looked_at: sql<Date | null>`case when ${hasNoted} then null else now() end` })
    .where("user_id", "=", userId)
    .where("name", "=", name)
    .execute();
}

/** Manifests that are remembered of a repository, by their digests. */
export async function listManifests(db: Db, userId: string, name: string): Promise<Map<string, StoredManifest>> {
  const rows = await db
    .selectFrom("account_manifest")
    .select(["digest", "bytes as sizeBytes", "is_index as isIndex"])
    .where("user_id", "=", userId)
    .where("name", "=", name)
    .execute();
  return new Map(rows.map((row) => [row.digest, row]));
}

/** Null also for a manifest that could not be read. */
export async function readParts(db: Db, userId: string, name: string, digest: string): Promise<Parts | null> {
  const row = await db
    .selectFrom("account_manifest")
    .select("parts")
    .where("user_id", "=", userId)
    .where("name", "=", name)
    .where("digest", "=", digest)
    .executeTakeFirst();
  return row?.parts ?? null;
}

/** Remembers it, unless its repository is none of the account's any more. `parts` are null if it could not be read. */
export async function rememberManifest(
  db: Db,
  userId: string,
  name: string,
  { digest, sizeBytes, isIndex }: StoredManifest,
  parts: Parts | null,
): Promise<void> {
  const json = parts === null ? null : JSON.stringify(parts);
  await sql`
    insert into account_manifest (user_id, name, digest, bytes, is_index, parts)
    select user_id, name, ${digest}, ${sizeBytes}::bigint, ${isIndex}::boolean, ${json}::jsonb
    from account_repository where user_id = ${userId} and name = ${name} for key share
    on conflict (user_id, name, digest) do update set parts = excluded.parts`.execute(db);
}

/**
 * Notes that it was pushed, until somebody looks; only in a repository of the account. How many there may be is bounded by
 * how long one token for pushing lasts: with too many there is no other.
 */
export async function noteManifest(db: Db, userId: string, name: string, digest: string): Promise<void> {
  await db.transaction().execute(async (tx) => {
    // What the registry tells late is looked at, too.
    await tx
      .updateTable("account_repository")
      .set({ looked_at: null })
      .where("user_id", "=", userId)
      .where("name", "=", name)
      .where("looked_at", "is not", null)
      .execute();
    await sql`
      insert into account_push (user_id, name, digest)
      select user_id, name, ${digest} from account_repository
      where user_id = ${userId} and name = ${name} for key share
      on conflict do nothing`.execute(tx);
  });
}

/** Digests that were noted and that nobody has looked at, as many as one look may take. */
export async function listNoted(db: Db, userId: string, name: string): Promise<string[]> {
  const rows = await db
    .selectFrom("account_push")
    .select("digest")
    .where("user_id", "=", userId)
    .where("name", "=", name)
    .orderBy("digest")
    .limit(limits.accountManifestsMax)
    .execute();
  return rows.map(({ digest }) => digest);
}

export async function forgetNoted(db: Db, userId: string, name: string, digests: readonly string[]): Promise<void> {
  await db
    .deleteFrom("account_push")
    .where("user_id", "=", userId)
    .where("name", "=", name)
    .where("digest", "=", sql<string>`any(${[...digests]}::text[])`)
    .execute();
}

export async function forgetManifest(db: Db, userId: string, name: string, digest: string): Promise<void> {
  await db
    .deleteFrom("account_manifest")
    .where("user_id", "=", userId)
    .where("name", "=", name)
    .where("digest", "=", digest)
    .execute();
}

/** What all remembered manifests of an account keep, equal content once. `manifests` has those that are noted, too. */
export async function sumKept(db: Db, userId: string): Promise<Omit<Kept, "tags">> {
  const { rows } = await sql<Omit<Kept, "tags">>`
    with its as (select name, digest, bytes, parts from account_manifest where user_id = ${userId}),
      content (digest, bytes) as (
        select digest, bytes from its
        union all
        select part.key, part.value::bigint from its, jsonb_each_text(its.parts) as part where part.value is not null)
    select
      (select coalesce(sum(bytes), 0)::int8
        from (select max(bytes) as bytes from content group by digest) as each) as bytes,
      (select count(*) from its)
        + (select count(*) from account_push as noted where user_id = ${userId}
          and not exists (select from its where its.name = noted.name and its.digest = noted.digest)) as manifests,
      (select min(name || '@' || digest) from its where parts is null) as unreadable`.execute(db);
  const [kept] = rows;
  if (kept === undefined) throw new Error("a sum without a row");
  return kept;
}
