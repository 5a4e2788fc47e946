import { sql } from "kysely";
import type { Content } from "../artifacts/rules.ts";
import type { Db } from "../db/pool.ts";

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

/** Bytes of the copies that are kept because of an account, and not counting `except`. */
export async function keptBytes(db: Db, ownerId: string, except: Content): Promise<number> {
  const { rows } = await sql<{ bytes: number }>`
    select coalesce(sum(size_bytes), 0)::bigint as bytes from base_image
    where owner_id = ${ownerId} and (repository, digest) <> (${except.repository}, ${except.digest})`.execute(db);
  return rows[0]?.bytes ?? 0;
}

/** Announces a copy that is about to be made, and with it that nothing of it is deleted. May be repeated. */
export async function beginCopy(db: Db, content: Content, of: { ownerId: string; sizeBytes: number }): Promise<void> {
  await db
    .insertInto("base_image")
    .values({ ...content, size_bytes: of.sizeBytes, owner_id: of.ownerId })
    .onConflict((conflict) => conflict.columns(["repository", "digest"]).doUpdateSet({ used_at: sql<Date>`now()` }))
    .execute();
}

/** The copy is whole. */
export async function endCopy(db: Db, { repository, digest }: Content): Promise<void> {
  await db
    .updateTable("base_image")
    .set({ copied_at: sql<Date>`now()` })
    .where("repository", "=", repository)
    .where("digest", "=", digest)
    .execute();
}

const unused = (keptDays: number) => sql<Date>`now() - ${keptDays} * interval '1 day'`;

/** Some of those that nobody used for so long. */
export const listUnused = (db: Db, keptDays: number, max: number): Promise<Content[]> =>
  db
    .selectFrom("base_image")
    .select(["repository", "digest"])
    .where("used_at", "<", unused(keptDays))
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
      .where("used_at", "<", unused(keptDays))
      .executeTakeFirst();
    if (numDeletedRows === 0n) return false;
    await remove();
    return true;
  });
