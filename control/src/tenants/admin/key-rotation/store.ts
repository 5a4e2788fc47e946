import { sql } from "kysely";
import type { Db } from "../../../stores/db/pool.ts";
import { keyIdPosition } from "../../../stores/secrets.ts";
import { placeName, type SealedPlace } from "./places.ts";

/** One sealed value and where it is. */
export interface SealedValue {
  key: readonly string[];
  sealed: Buffer;
}

/** How many values of a place one key seals. */
export interface KeyCount {
  place: string;
  /** Id in hex; of what is no sealed value at all, whatever bytes stand there. */
  keyId: string;
  count: number;
}

/** Postgres counts from 1. */
const from = keyIdPosition.offset + 1;
const keyIdOf = ({ column }: SealedPlace) =>
  sql<Buffer>`substring(${sql.ref(column)} from ${sql.lit(from)} for ${sql.lit(keyIdPosition.length)})`;
const keyColumns = ({ key }: SealedPlace) => sql.join(key.map((name) => sql.ref(name)));

/** Up to `limit` values that another key than `keyId` seals, in the order of their keys, behind `after`. */
export async function listStale(
  db: Db,
  place: SealedPlace,
  { keyId, after, limit }: { keyId: string; after: readonly string[] | null; limit: number },
): Promise<SealedValue[]> {
  const behind =
    after === null ? sql`true` : sql`(${keyColumns(place)}) > (${sql.join(after.map((value) => sql`${value}`))})`;
  const texts = sql.join(place.key.map((name) => sql`${sql.ref(name)}::text`));
  const { rows } = await sql<SealedValue>`
    select array[${texts}] as key, ${sql.ref(place.column)} as sealed from ${sql.table(place.table)}
    where ${sql.ref(place.column)} is not null
      and ${keyIdOf(place)} is distinct from ${Buffer.from(keyId, "hex")} and ${behind}
    order by ${keyColumns(place)} limit ${limit}`.execute(db);
  return rows;
}

/** Puts `fresh` in the place of exactly `sealed`; false when the row has another value by now, or is gone. */
export async function replaceSealed(
  db: Db,
  place: SealedPlace,
  { key, sealed }: SealedValue,
  fresh: Buffer,
): Promise<boolean> {
  const { numAffectedRows } = await sql`
    update ${sql.table(place.table)} set ${sql.ref(place.column)} = ${fresh}
    where (${keyColumns(place)}) = (${sql.join(key.map((value) => sql`${value}`))})
      and ${sql.ref(place.column)} = ${sealed}`.execute(db);
  return numAffectedRows === 1n;
}

/** Which keys seal the values of `places` at this moment. Opens nothing. */
export async function countByKey(db: Db, places: readonly SealedPlace[]): Promise<KeyCount[]> {
  const counts: KeyCount[] = [];
  for (const place of places) {
    const { rows } = await sql<{ id: Buffer; count: number }>`
      select ${keyIdOf(place)} as id, count(*)::int as count from ${sql.table(place.table)}
      where ${sql.ref(place.column)} is not null group by 1 order by 1`.execute(db);
    counts.push(...rows.map(({ id, count }) => ({ place: placeName(place), keyId: id.toString("hex"), count })));
  }
  return counts;
}
