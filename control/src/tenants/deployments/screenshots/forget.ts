import { sql } from "kysely";
import type { Db } from "../../../stores/db/pool.ts";

/** What is live is captured again each night: these are of what has not been for so long. */
const keptDays = 30;

/** Forgets pictures of what is not live any more; the collector takes their bytes. Returns how many. */
export async function forgetScreenshots(db: Db): Promise<number> {
  const { numDeletedRows } = await db
    .deleteFrom("screenshot")
    .where("pending", "=", false)
    .where("asked_at", "<", sql<Date>`now() - ${keptDays} * interval '1 day'`)
    .executeTakeFirst();
  return Number(numDeletedRows);
}
