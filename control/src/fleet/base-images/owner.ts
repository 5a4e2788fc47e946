import type { Db } from "../../stores/db/pool.ts";
import { uuid } from "../../stores/db/uuid.ts";
import type { Etcd } from "../../stores/etcd/index.ts";
import { keys, placementValue } from "../cluster/keys.ts";

/**
 * Whose build a placement on this node is; null when it is none that is still to be done. Where a placement is, etcd
 * decides: a leader that is killed halfway has told the node, and Postgres does not know it yet.
 */
export async function ownerOfBuild(
  { db, etcd }: { db: Db; etcd: Pick<Etcd, "get"> },
  nodeId: string,
  placementId: string,
): Promise<string | null> {
  if (!uuid.test(placementId)) return null;
  const entry = await etcd.get(keys.placement(nodeId, placementId));
  if (entry === null) return null;
  const { kind, desired, projectId } = placementValue.parse(JSON.parse(entry.value));
  if (kind !== "build" || desired !== "running") return null;
  const project = await db.selectFrom("project").select("owner_id").where("id", "=", projectId).executeTakeFirst();
  return project?.owner_id ?? null;
}
