import type { Fleet } from "../cluster/fleet.ts";
import type { Db } from "../db/pool.ts";

export interface EdgeProgress {
  /** Edges that visitors may reach, whether or not they answer us: a silent one still serves its last table. */
  inRotation: number;
  /** Those that serve the published table or a newer one. */
  current: number;
}

/** How far the edges have followed the published route table. */
export async function edgeProgress(db: Db, fleet: Fleet): Promise<EdgeProgress> {
  const edges = await db
    .selectFrom("node")
    .select("id")
    .where("role", "=", "edge")
    .where("lifecycle", "=", "active")
    .where("schedulable", "=", true)
    .where("last_seen_at", "is not", null)
    .execute();
  const { generation } = fleet.routes().meta;
  const current = edges.filter(({ id }) => (fleet.edgeApplied(id)?.generation ?? -1) >= generation);
  return { inRotation: edges.length, current: current.length };
}
