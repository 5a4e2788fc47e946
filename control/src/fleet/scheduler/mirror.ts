import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import { inFencedTransaction } from "../cluster/fenced.ts";
import { lockTasks } from "../tasks/change.ts";
import type { Write } from "./commit.ts";
import { taskOf } from "./commit.ts";

/** Tells Postgres what is in etcd now, unless a newer leader has written there; then this one has to stop. */
export async function mirrorInPostgres(db: Db, epoch: bigint, steps: readonly Write[]): Promise<void> {
  const placed = steps.filter((step) => step.do === "place" || step.do === "mirror");
  const reaped = steps.filter((step) => step.do === "reap").map(taskOf);
  await inFencedTransaction(db, epoch, async (tx) => {
    await lockTasks(tx, [...placed.map(taskOf), ...reaped]);
    if (placed.length > 0) {
      await sql`update task set node_id = told.node_id, refused = null
        from unnest(${placed.map(taskOf)}::uuid[], ${placed.map(({ nodeId }) => nodeId)}::uuid[]) as told (id, node_id)
        where task.id = told.id`.execute(tx);
    }
    if (reaped.length > 0) {
      await sql`update task set reaped_at = now() where id = any(${reaped}::uuid[])`.execute(tx);
    }
  });
}
