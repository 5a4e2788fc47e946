import { sql } from "kysely";
import { deleteExpired } from "../auth/expire.ts";
import type { Db } from "../db/pool.ts";
import type { Log } from "../log.ts";

/** How long what is only of use for looking back is kept. */
const keptDays = { work: 7, samples: 30 } as const;

/** Deletes what has had its time. Safe to repeat and to run anywhere; the leader does it, so that it is done once. */
export async function keepHouse(db: Db, log: Log): Promise<void> {
  const expired = await deleteExpired(db);
  const work = await db
    .deleteFrom("work_item")
    .where("state", "in", ["done", "failed"])
    .where("finished_at", "<", sql<Date>`now() - ${keptDays.work} * interval '1 day'`)
    .executeTakeFirst();
  const samples = await db
    .deleteFrom("resource_sample")
    .where("at", "<", sql<Date>`now() - ${keptDays.samples} * interval '1 day'`)
    .executeTakeFirst();
  const deleted = expired + Number(work.numDeletedRows) + Number(samples.numDeletedRows);
  if (deleted > 0)
    log.info({ expired, work: Number(work.numDeletedRows), samples: Number(samples.numDeletedRows) }, "housekeeping");
}
