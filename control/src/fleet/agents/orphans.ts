import type { Db } from "../../stores/db/pool.ts";
import { uuid } from "../../stores/db/uuid.ts";
import type { TaskRecord } from "../sessions/outbox.ts";

/** What Postgres knows of placements that the agent of a node holds and etcd does not name there. */
export async function findTaskRecords(
  db: Db,
  nodeId: string,
  placementIds: readonly string[],
): Promise<Map<string, TaskRecord>> {
  const known = placementIds.filter((id) => uuid.test(id));
  const records = new Map<string, TaskRecord>(placementIds.map((id) => [id, "unknown"]));
  if (known.length === 0) return records;
  const rows = await db
    .selectFrom("task")
    .select(["id", "node_id", "desired", "reaped_at"])
    .where("id", "in", known)
    .execute();
  for (const { id, node_id, desired, reaped_at } of rows) {
    // A task has one node. It got another one when a restore of etcd took the place here away, before anybody knew of it.
    const isElsewhere = node_id !== null && node_id !== nodeId;
    records.set(id, desired === "removed" || reaped_at !== null || isElsewhere ? "gone" : "wanted");
  }
  return records;
}
