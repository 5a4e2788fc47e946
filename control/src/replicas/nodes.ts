import type { Db } from "../db/pool.ts";
import type { Node } from "../db/tables.ts";
import type { ReplicaNode } from "./steps.ts";

export type FleetNode = Pick<Node, "id" | "lifecycle" | "drain" | "quarantined_at" | "engine_stalled">;

/** Every node with what its operators and the link say of it. */
export async function readNodes(db: Db): Promise<Map<string, FleetNode>> {
  const rows = await db
    .selectFrom("node")
    .select(["id", "lifecycle", "drain", "quarantined_at", "engine_stalled"])
    .where("role", "=", "node")
    .execute();
  return new Map(rows.map((row) => [row.id, row]));
}

/**
 * How a node is for a replica on it. One without a row may run on all the same, only nobody knows it any more: it counts
 * as lost, so that nothing of it goes before something else serves.
 */
export function replicaNode(node: FleetNode | undefined, isLost: boolean): ReplicaNode {
  if (node === undefined) return "lost";
  if (node.lifecycle !== "active") return "gone";
  if (node.quarantined_at !== null) return "quarantined";
  if (isLost) return "lost";
  return node.drain === "none" ? "present" : "draining";
}
