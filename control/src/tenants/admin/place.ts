import { type RawBuilder, sql } from "kysely";
import { Refused } from "../../stores/refused.ts";

/** Where a page of something ordered by time and id ended. */
export interface Place {
  /** Of the last row, in microseconds since 1970: Postgres tells times apart that a Date does not. */
  micros: number;
  id: string;
}

/** A place as clients hand it back, opaque to them. */
export const writeCursor = ({ micros, id }: Place): string => Buffer.from(`${micros}/${id}`).toString("base64url");

/** Null for a text that no `writeCursor` wrote. `isId` says what an id looks like. */
export function readCursor(cursor: string, isId: RegExp): Place | null {
  const [, micros, id] =
    /^([0-9]{1,16})\/([0-9a-f-]{1,36})$/.exec(Buffer.from(cursor, "base64url").toString("latin1")) ?? [];
  if (micros === undefined || id === undefined || !isId.test(id)) return null;
  const place = { micros: Number(micros), id };
  // Many texts decode to the same bytes, and only one of them is ours.
  return Number.isSafeInteger(place.micros) && writeCursor(place) === cursor ? place : null;
}

export const serial = /^[0-9]{1,15}$/;

/** The place that `cursor` names; null without one. Throws VALIDATION for anything that is none. */
export function placeOf(cursor: string | undefined, isId: RegExp): Place | null {
  if (cursor === undefined) return null;
  const place = readCursor(cursor, isId);
  if (place === null) throw new Refused("VALIDATION", "cursor: is not one that this call gave out");
  return place;
}

/** The first `limit` of `rows`, of which one more was read, and where the next page goes on; null at the end. */
export function pageOf<Row extends Place>(
  rows: readonly Row[],
  limit: number,
): { page: Row[]; nextCursor: string | null } {
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  return { page, nextCursor: rows.length > limit && last !== undefined ? writeCursor(last) : null };
}

/** A time as the number that a place keeps. */
export const microsOf = (time: RawBuilder<unknown>): RawBuilder<number> =>
  sql<number>`(extract(epoch from ${time}) * 1000000)::bigint`;

/** The time of a place, to the microsecond. */
export const timeOf = ({ micros }: Place): RawBuilder<Date> =>
  sql<Date>`(timestamptz 'epoch' + ${micros}::bigint * interval '1 microsecond')`;
