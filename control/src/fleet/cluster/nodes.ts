import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import type { Node } from "../../stores/db/tables.ts";

/** How the node of a replica is, as far as replacing goes. */
export type ReplicaNode =
  /** Has a session, is silent for less than a lease, or its replica of control is gone: it may be back at any moment. */
  | "present"
  /** An operator wants it empty. */
  | "draining"
  /** Its lease is over. What it ran may run on. */
  | "lost"
  /** Two machines use its identity. */
  | "quarantined"
  /** Fenced or removed: nothing on it counts any more. */
  | "gone";

export type FleetNode = Pick<Node, "id" | "lifecycle" | "drain" | "quarantined_at" | "engine_stalled">;

/** Every node, or those of `ids`, with what its operators and the link say of it. */
export async function readNodes(db: Db, ids?: readonly string[]): Promise<Map<string, FleetNode>> {
  const rows = await db
    .selectFrom("node")
    .select(["id", "lifecycle", "drain", "quarantined_at", "engine_stalled"])
    .where("role", "=", "node")
    .$if(ids !== undefined, (query) => query.where("id", "=", sql<string>`any(${ids}::uuid[])`))
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
