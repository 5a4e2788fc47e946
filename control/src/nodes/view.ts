import type { FleetView } from "../context.ts";
import type { Db } from "../db/pool.ts";
import type { Node } from "../db/tables.ts";
import { type NodeStatus, nodeStatus } from "./rules.ts";
import { findNodeRow, listNodeRows } from "./store.ts";

type LiveNodes = Pick<FleetView, "isConnected" | "placementsOf">;

/** What administrators see of a node: no addresses, no identities of tenants' tasks. */
export interface NodeView {
  id: string;
  name: string;
  role: "node" | "edge";
  status: NodeStatus;
  /** At most half a minute old while connected; null before the first contact. */
  lastSeenAt: Date | null;
  /** Null for routers, and before the first contact. */
  capacity: { memoryMb: number; cpuMillicores: number; pids: number; diskMb: number } | null;
  /** What placements hold of it. */
  allocated: { memoryMb: number; cpuMillicores: number };
  runningPlacements: number;
  version: string | null;
  platform: { os: string; architecture: string } | null;
  labels: Record<string, string>;
  createdAt: Date;
}

/** The whole fleet, removed nodes last. */
export async function listNodes(db: Db, fleet: LiveNodes): Promise<NodeView[]> {
  return (await listNodeRows(db)).map((row) => nodeView(row, fleet));
}

/** The node with this id or name; null when there is none. */
export async function findNode(db: Db, fleet: LiveNodes, idOrName: string): Promise<NodeView | null> {
  const row = await findNodeRow(db, idOrName);
  return row === null ? null : nodeView(row, fleet);
}

function nodeView(row: Node, fleet: LiveNodes): NodeView {
  const placements = fleet.placementsOf(row.id);
  return {
    id: row.id,
    name: row.name,
    role: row.role,
    status: nodeStatus({
      lifecycle: row.lifecycle,
      schedulable: row.schedulable,
      drain: "none",
      link: fleet.isConnected(row.id) ? "connected" : "unreachable",
    }),
    lastSeenAt: row.last_seen_at,
    capacity: row.capacity,
    allocated: {
      memoryMb: placements.reduce((sum, { memoryMb }) => sum + memoryMb, 0),
      cpuMillicores: placements.reduce((sum, { cpuMillicores }) => sum + cpuMillicores, 0),
    },
    runningPlacements: placements.filter(({ running }) => running).length,
    version: row.version,
    platform: row.platform,
    labels: row.labels,
    createdAt: row.created_at,
  };
}
