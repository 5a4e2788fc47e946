import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import { inFencedTransaction } from "../cluster/fenced.ts";
import type { Site } from "./steps.ts";

/** Of one round; the next one goes on. */
const mostAtOnce = 1_000;

/** Keeps of containers that serve for the first time that they did. What somebody else holds is left to the next round. */
export async function noteServed(db: Db, epoch: bigint, sites: readonly Site[]): Promise<void> {
  const ids = sites
    .flatMap(({ running }) => running)
    .filter(({ serving, served }) => serving && !served)
    .slice(0, mostAtOnce)
    .map(({ taskId }) => taskId);
  if (ids.length === 0) return;
  await inFencedTransaction(db, epoch, async (tx) => {
    await tx
      .updateTable("task")
      .set({ served_at: sql<Date>`now()` })
      .where("id", "in", (eb) =>
        eb
          .selectFrom("task")
          .select("id")
          .where("id", "=", sql<string>`any(${ids}::uuid[])`)
          .where("served_at", "is", null)
          .forNoKeyUpdate()
          .skipLocked(),
      )
      .execute();
  });
}
