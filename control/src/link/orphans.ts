import type { Db } from "../db/pool.ts";
import type { TaskRecord } from "./outbox.ts";

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** What Postgres knows of placements that an agent holds and etcd does not name. */
export async function findTaskRecords(db: Db, placementIds: readonly string[]): Promise<Map<string, TaskRecord>> {
  const known = placementIds.filter((id) => uuid.test(id));
  const records = new Map<string, TaskRecord>(placementIds.map((id) => [id, "unknown"]));
  if (known.length === 0) return records;
  const rows = await db.selectFrom("task").select(["id", "desired", "reaped_at"]).where("id", "in", known).execute();
  for (const { id, desired, reaped_at } of rows) {
    records.set(id, desired === "removed" || reaped_at !== null ? "gone" : "wanted");
  }
  return records;
}
