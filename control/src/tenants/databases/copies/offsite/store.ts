import type { Random } from "@svc/runtime/random";
import { sql } from "kysely";
import type { Db } from "../../../../stores/db/pool.ts";
import type { Copy, OffsiteCopy } from "../../../../stores/db/tables.ts";
import type { Secrets } from "../../../../stores/secrets.ts";
import { makeBranchKey } from "./key.ts";
import type { ShippedObject, VersionedPart } from "./rules.ts";

const now = sql<Date>`clock_timestamp()`;

/** How often a copy that has something new is followed. */
const everySeconds = 60;
/** Nothing is deleted sooner: whoever has not heard yet may still write down where it is. */
const settledSeconds = 900;
const bytesPerMb = 1024 * 1024;
/** Per round; the rest has its turn in the next. */
const removalsMax = 200;

/** A copy on a node that has what is not off-site. */
export type DueCopy = Copy & { node_id: string; covered_at: Date };

/** The one that was looked at least lately, but for those of `busy`; null: none is due. */
export async function findDueCopy(db: Db, place: string, busy: readonly string[]): Promise<DueCopy | null> {
  const copy = await db
    .selectFrom("database_copy as copy")
    .innerJoin("database", "database.id", "copy.database_id")
    .innerJoin("node", "node.id", "copy.node_id")
    .leftJoin("offsite_copy as away", (join) => join.onRef("away.copy_id", "=", "copy.id").on("away.place", "=", place))
    .selectAll("copy")
    .where("copy.purpose", "=", "keeper")
    .where("copy.state", "=", "following")
    .where("copy.covered_at", "is not", null)
    .where("database.status", "!=", "dropping")
    .whereRef("database.generation", "=", "copy.generation")
    .where("node.lifecycle", "=", "active")
    .where(
      sql<boolean>`(away.id is null or (away.touched_at < now() - ${everySeconds} * interval '1 second'
        and (away.covered_at is null or copy.covered_at > away.covered_at)))`,
    )
    .where(sql<boolean>`not (copy.id = any(${[...busy]}::uuid[]))`)
    .orderBy(sql`away.touched_at nulls first`)
    .orderBy("copy.id")
    .limit(1)
    .executeTakeFirst();
  return copy === undefined ? null : (copy as DueCopy);
}

/** What is off-site of a copy, with the sealed key of its branch; begins both if there are none. */
export async function provideOffsite(
  { db, random, secrets }: { db: Db; random: Pick<Random, "uuid">; secrets: Pick<Secrets, "seal"> },
  { id: copyId, database_id }: Copy,
  place: string,
): Promise<{ offsite: OffsiteCopy; secret: Buffer }> {
  await db
    .insertInto("offsite_key")
    .values({ database_id, secret: makeBranchKey(secrets, database_id) })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
  await db
    .insertInto("offsite_copy")
    .values({ id: random.uuid(), copy_id: copyId, database_id, place })
    .onConflict((conflict) => conflict.columns(["copy_id", "place"]).doNothing())
    .execute();
  const { secret, ...offsite } = await db
    .selectFrom("offsite_copy")
    .innerJoin("offsite_key", "offsite_key.database_id", "offsite_copy.database_id")
    .selectAll("offsite_copy")
    .select("offsite_key.secret")
    .where("copy_id", "=", copyId)
    .where("place", "=", place)
    .executeTakeFirstOrThrow();
  return { offsite, secret };
}

/** What is in the bucket of a copy, and of use. */
export const listObjects = async (db: Db, offsiteId: string): Promise<ShippedObject[]> =>
  db
    .selectFrom("offsite_object")
    .select(["id", "parts"])
    .where("offsite_copy_id", "=", offsiteId)
    .where("put_at", "is not", null)
    .where("useless_at", "is", null)
    .orderBy("put_at")
    .execute();

/** What there is to be had on a node of what is off-site of a copy, in MiB: neither compressed nor sealed. */
export async function offsiteSizeMb(db: Db, offsiteId: string): Promise<number> {
  const { rows } = await sql<{ bytes: number }>`
    select coalesce(sum((part ->> 'length')::float8), 0) as bytes
    from offsite_object object, jsonb_array_elements(object.parts) part
    where object.offsite_copy_id = ${offsiteId} and object.put_at is not null and object.useless_at is null`.execute(
    db,
  );
  return Math.ceil((rows[0]?.bytes ?? 0) / bytesPerMb);
}

/** Before anything of it is in the bucket. */
export const beginObject = async (
  db: Db,
  offsiteId: string,
  id: string,
  parts: readonly VersionedPart[],
): Promise<void> =>
  void (await db
    .insertInto("offsite_object")
    .values({ id, offsite_copy_id: offsiteId, parts: JSON.stringify(parts) })
    .execute());

export const setPut = async (db: Db, id: string): Promise<void> =>
  void (await db.updateTable("offsite_object").set({ put_at: now }).where("id", "=", id).execute());

/** Something was done with it: it has its next turn after all others. */
export const touch = async (db: Db, offsiteId: string, problem: string | null): Promise<void> =>
  void (await db.updateTable("offsite_copy").set({ touched_at: now, problem }).where("id", "=", offsiteId).execute());

/** The manifest in the bucket names these objects, and covers everything until then. */
export async function setCovered(
  db: Db,
  offsiteId: string,
  { used, ...covered }: Pick<Copy, "covered_at" | "position" | "bases"> & { used: readonly string[] },
): Promise<void> {
  await db.transaction().execute(async (tx) => {
    await tx
      .updateTable("offsite_copy")
      .set({
        ...covered,
        manifest_at: covered.covered_at,
        bases: JSON.stringify(covered.bases),
        problem: null,
        touched_at: now,
      })
      .where("id", "=", offsiteId)
      .execute();
    const isUsed = sql<boolean>`id = any(${[...used]}::uuid[])`;
    const objects = tx.updateTable("offsite_object").where("offsite_copy_id", "=", offsiteId);
    await objects.set({ useless_at: null }).where(isUsed).where("useless_at", "is not", null).execute();
    await objects.set({ useless_at: now }).where(sql<boolean>`not ${isUsed}`).where("useless_at", "is", null).execute();
  });
}

/** Nothing was written since: what is off-site covers as much as the copy does. */
export const setStillCovered = async (db: Db, offsiteId: string, covered_at: Date): Promise<void> =>
  void (await db
    .updateTable("offsite_copy")
    .set({ covered_at, problem: null, touched_at: now })
    .where("id", "=", offsiteId)
    .execute());

/**
 * Gives up what is off-site of branches that are no more and cannot come back, with their keys, and of copies that are no more where another one covers
 * more. What is off-site is never the last that there is of a branch.
 */
export async function giveUpOffsite(db: Db, place: string): Promise<void> {
  const isNoMore = sql<boolean>`
    not exists (select from database where database.id = database_id)
    and not exists (
      select from dropped_database where dropped_database.id = database_id and dropped_database.admin_secret is not null)`;
  await db.deleteFrom("offsite_key").where(isNoMore).execute();
  await sql`
    with given_up as (
      update offsite_copy away set covered_at = null where place = ${place} and (
      (not exists (select from database where database.id = away.database_id)
        and not exists (
          select from dropped_database dropped where dropped.id = away.database_id and dropped.admin_secret is not null))
      or (not exists (
          select from database_copy copy
          where copy.id = away.copy_id and (copy.purge_at is null or copy.purge_at > now()))
        and (away.covered_at is null or exists (
          select from offsite_copy other where other.database_id = away.database_id and other.place = away.place
            and other.covered_at > away.covered_at))))
      returning id)
    update offsite_object set useless_at = now() - ${settledSeconds} * interval '1 second'
    where useless_at is null and offsite_copy_id in (select id from given_up)`.execute(db);
}

/** Objects of no use, and whose they are. */
export const listUselessObjects = (db: Db, place: string): Promise<{ id: string; offsite_copy_id: string }[]> =>
  db
    .selectFrom("offsite_object")
    .innerJoin("offsite_copy", "offsite_copy.id", "offsite_object.offsite_copy_id")
    .select(["offsite_object.id", "offsite_object.offsite_copy_id"])
    .where("offsite_copy.place", "=", place)
    .where(sql<boolean>`offsite_object.useless_at <= now() - ${settledSeconds} * interval '1 second'`)
    // Whoever brings it to a node goes by a manifest that may be an older one.
    .where(
      sql<boolean>`not exists (
        select from database_copy copy where copy.fetched_from = offsite_copy.id
          and copy.covered_at is null and copy.problem is null)`,
    )
    .orderBy("offsite_object.useless_at")
    .limit(removalsMax)
    .execute();

export const forgetObject = async (db: Db, id: string): Promise<void> =>
  void (await db.deleteFrom("offsite_object").where("id", "=", id).execute());

/** Copies of which nothing is left but the manifest. */
export const listEmptyOffsite = (db: Db, place: string): Promise<{ id: string }[]> =>
  db
    .selectFrom("offsite_copy")
    .select("id")
    .where("place", "=", place)
    .where(
      sql<boolean>`not exists (select from offsite_object object where object.offsite_copy_id = offsite_copy.id)
        and not exists (
          select from database_copy copy
          where copy.id = offsite_copy.copy_id and (copy.purge_at is null or copy.purge_at > now()))`,
    )
    .limit(removalsMax)
    .execute();

export const forgetOffsite = async (db: Db, id: string): Promise<void> =>
  void (await db.deleteFrom("offsite_copy").where("id", "=", id).execute());

/** What is off-site of a branch and can be fetched, that which covers most first. */
export const listFetchable = (db: Db, databaseId: string, place: string): Promise<OffsiteCopy[]> =>
  db
    .selectFrom("offsite_copy")
    .selectAll()
    .where("database_id", "=", databaseId)
    .where("place", "=", place)
    .where("covered_at", "is not", null)
    .orderBy("covered_at", "desc")
    .execute();
