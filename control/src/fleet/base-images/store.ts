import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import type { Content } from "../artifacts/rules.ts";
import { type BaseImageRefusal, roomProblem } from "./rules.ts";

/** Keeps a copy for as long again. False when there is none that is whole. */
export async function noteUse(db: Db, { repository, digest }: Content): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable("base_image")
    .set({ used_at: sql<Date>`now()` })
    .where("repository", "=", repository)
    .where("digest", "=", digest)
    .where("copied_at", "is not", null)
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

/** A copy that nobody saw whole after so long is not being made any more: control was killed, and nobody asked again. */
const attemptHours = 24;
const abandoned = sql<boolean>`copied_at is null and used_at < now() - ${attemptHours} * interval '1 hour'`;

/** Bytes of the copies that are kept or being made because of an account, and not counting `except`. */
async function keptBytes(db: Db, ownerId: string | null, except: Content): Promise<number> {
  const { rows } = await sql<{ bytes: number }>`
    select coalesce(sum(size_bytes), 0)::bigint as bytes from base_image
    where owner_id = ${ownerId} and (repository, digest) <> (${except.repository}, ${except.digest})
      and not (${abandoned})`.execute(db);
  return rows[0]?.bytes ?? 0;
}

/**
 * Announces a copy that is about to be made, and with it that nothing of it is deleted; returns why the account has no
 * room for it. May be repeated.
 */
export const beginCopy = (
  db: Db,
  content: Content,
  { ownerId, sizeBytes, maxMb }: { ownerId: string | null; sizeBytes: number; maxMb: number },
): Promise<BaseImageRefusal | null> =>
  db.transaction().execute(async (tx) => {
    // Several may begin at once, here and on other replicas. By a statement of its own, so that the next one counts
    // what was announced meanwhile.
    await sql`select pg_advisory_xact_lock(hashtextextended(${`base images of ${ownerId}`}, 0))`.execute(tx);
    const problem = roomProblem(await keptBytes(tx, ownerId, content), sizeBytes, maxMb);
    if (problem !== null) return problem;
    await tx
      .insertInto("base_image")
      .values({ ...content, size_bytes: sizeBytes, owner_id: ownerId })
      .onConflict((conflict) => conflict.columns(["repository", "digest"]).doUpdateSet({ used_at: sql<Date>`now()` }))
      .execute();
    return null;
  });

/** Gives back the room of a copy of which nothing can be had by its digest. */
export async function giveUpCopy(db: Db, { repository, digest }: Content): Promise<void> {
  await db
    .deleteFrom("base_image")
    .where("repository", "=", repository)
    .where("digest", "=", digest)
    .where("copied_at", "is", null)
    .execute();
}

/** The copy is whole, also if another replica that was at the same has given it up. */
export async function endCopy(
  db: Db,
  content: Content,
  of: { ownerId: string | null; sizeBytes: number },
): Promise<void> {
  const copied_at = sql<Date>`now()`;
  await db
    .insertInto("base_image")
    .values({ ...content, size_bytes: of.sizeBytes, owner_id: of.ownerId, copied_at })
    .onConflict((conflict) => conflict.columns(["repository", "digest"]).doUpdateSet({ copied_at }))
    .execute();
}

const unused = (keptDays: number) => sql<boolean>`(used_at < now() - ${keptDays} * interval '1 day' or (${abandoned}))`;

/** Some of those that nobody used for so long, or that never became whole. */
export const listUnused = (db: Db, keptDays: number, max: number): Promise<Content[]> =>
  db
    .selectFrom("base_image")
    .select(["repository", "digest"])
    .where(unused(keptDays))
    .orderBy("used_at")
    .limit(max)
    .execute();

/** Deletes one by `remove`, under the lock that whoever uses it has to take, too. False: it was used a moment ago. */
export const forgetUnused = (
  db: Db,
  { repository, digest }: Content,
  keptDays: number,
  remove: () => Promise<unknown>,
): Promise<boolean> =>
  db.transaction().execute(async (tx) => {
    const { numDeletedRows } = await tx
      .deleteFrom("base_image")
      .where("repository", "=", repository)
      .where("digest", "=", digest)
      .where(unused(keptDays))
      .executeTakeFirst();
    if (numDeletedRows === 0n) return false;
    await remove();
    return true;
  });
