import { sql } from "kysely";
import { notifying } from "../db/notify.ts";
import type { Db } from "../db/pool.ts";
import { enqueue, type NewWork, workTopic } from "./queue.ts";

/**
 * Makes sure that a worker looks at this work after the caller's transaction. For work that reads for itself what there
 * is to do: an item of the key that waits is woken, and one is added only when there is none.
 */
export async function wakeWork(tx: Db, work: Omit<NewWork, "runAt">): Promise<void> {
  // Locked, a waiting item cannot be taken up before the commit; one that runs may have read what was before.
  const waiting = tx
    .selectFrom("work_item")
    .select("id")
    .where("key", "=", work.key)
    .where("state", "=", "queued")
    .orderBy("id")
    .limit(1)
    .forUpdate()
    .skipLocked();
  const woken = await tx
    .updateTable("work_item")
    .set({ run_at: sql<Date>`now()` })
    .where("id", "=", waiting)
    .returning(["id", notifying(workTopic, work.kind)])
    .executeTakeFirst();
  if (woken === undefined) await enqueue(tx, work);
}
