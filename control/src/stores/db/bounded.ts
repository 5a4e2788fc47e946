import { type RawBuilder, sql } from "kysely";

const most = sql.lit(Number.MAX_SAFE_INTEGER);

/**
 * The value of an expression as an int8 that can be read: 0 for null, 2^53 - 1 if it is more. Sums of what other
 * machines report go through it: one that had grown too large would otherwise fail every query that has it in a row.
 *
 * @param number an expression of any numeric type that does not overflow itself, as a sum of int8 does not
 */
export const bounded = (number: RawBuilder<unknown>): RawBuilder<number> =>
  sql`least(coalesce(${number}, 0), ${most})::int8`;
