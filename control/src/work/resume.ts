import { sql } from "kysely";
import type { Db } from "../db/pool.ts";

/**
 * Work that was promised to somebody, or without which something would run or be kept for ever. Each finds by itself
 * what is left to do, also nothing at all. A deployment is not among these: it ends when its work is given up.
 */
const kinds = ["remove", "rename", "retire", "teardown"];

/** Queues such work again that was given up after too many failures. Returns how many items. */
export async function resumeWork(db: Db): Promise<number> {
  const { numUpdatedRows } = await db
    .updateTable("work_item")
    .set({ state: "queued", attempt: 0, run_at: sql<Date>`now()`, error: null, finished_at: null })
    .where("kind", "in", kinds)
    .where("state", "=", "failed")
    .executeTakeFirst();
  return Number(numUpdatedRows);
}
