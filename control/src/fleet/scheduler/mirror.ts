import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import { inFencedTransaction } from "../cluster/fenced.ts";
import { lockTasks } from "../tasks/change.ts";

/** What Postgres has to know of placements in etcd. */
export interface Mirrored {
  placed: readonly { taskId: string; nodeId: string }[];
  /** Tasks that are over. */
  reaped: readonly string[];
}

/** Tells Postgres what is in etcd now, unless a newer leader has written there; then this one has to stop. */
export async function mirrorInPostgres(db: Db, epoch: bigint, { placed, reaped }: Mirrored): Promise<void> {
  const ids = placed.map(({ taskId }) => taskId);
  await inFencedTransaction(db, epoch, async (tx) => {
    await lockTasks(tx, [...ids, ...reaped]);
    if (placed.length > 0) {
      await sql`update task set node_id = told.node_id, refused = null
        from unnest(${ids}::uuid[], ${placed.map(({ nodeId }) => nodeId)}::uuid[]) as told (id, node_id)
        where task.id = told.id`.execute(tx);
    }
    if (reaped.length > 0) {
      await sql`update task set reaped_at = now() where id = any(${reaped}::uuid[])`.execute(tx);
    }
  });
}
