import { sql } from "kysely";
import { bounded } from "../../stores/db/bounded.ts";
import type { Db } from "../../stores/db/pool.ts";

/** The first day of the UTC month of `at`, as YYYY-MM-DD. */
export const monthOf = (at: Date): string => `${at.toISOString().slice(0, 7)}-01`;

/** What a user's sites were asked for within one calendar month (UTC), projects that are gone included. */
export interface MonthTraffic {
  requests: number;
  bytesIn: number;
  bytesOut: number;
}

/** Of the month of `now`. Edges report every few seconds, so it is that much behind. */
export async function getMonthTraffic(db: Db, userId: string, now: Date): Promise<MonthTraffic> {
  const row = await db
    .selectFrom("traffic_month")
    .select([
      bounded(sql.ref("requests")).as("requests"),
      bounded(sql.ref("bytes_in")).as("bytes_in"),
      bounded(sql.ref("bytes_out")).as("bytes_out"),
    ])
    .where("user_id", "=", userId)
    .where("month", "=", monthOf(now))
    .executeTakeFirst();
  return { requests: row?.requests ?? 0, bytesIn: row?.bytes_in ?? 0, bytesOut: row?.bytes_out ?? 0 };
}

/** The contract's bandwidth: both directions, in MiB with two decimals. */
export const bandwidthMb = ({ bytesIn, bytesOut }: Pick<MonthTraffic, "bytesIn" | "bytesOut">): number =>
  Math.round(((bytesIn + bytesOut) / bytesPerMb) * 100) / 100;

const bytesPerMb = 1024 ** 2;
