import type { Stats } from "@svc/proto";
import { version } from "@svc/runtime/version";
import type { FleetView } from "../../../fleet/cluster/facts.ts";
import { listNodeRows } from "../../../fleet/nodes/store.ts";
import type { Node } from "../../../stores/db/tables.ts";
import type { TenantContext } from "../../context.ts";
import {
  countDeployments,
  countUsersByPlan,
  readCounts,
  readDatabaseFacts,
  readQueue,
  readStoredBytes,
} from "./store.ts";

const bytesPerMb = 1024 * 1024;

/** One statement after another: nobody waits for it, and the connections are for those who do. */
export async function readStats({ db, fleet }: Pick<TenantContext, "db" | "fleet">): Promise<Stats> {
  const counts = await readCounts(db);
  const byStatus = await countDeployments(db);
  const usersByPlan = await countUsersByPlan(db);
  const stored = await readStoredBytes(db);
  const database = await readDatabaseFacts(db);
  const work = await readQueue(db);
  const machines = (await listNodeRows(db)).filter(({ lifecycle }) => lifecycle === "active");
  const nodes = machines.filter(({ role }) => role === "node");
  const edges = machines.filter(({ role }) => role === "edge");
  return {
    projects: counts.projects,
    users: counts.users,
    deployments: { total: Object.values(byStatus).reduce((sum, count) => sum + count, 0), byStatus },
    requests24h: counts.requests24h,
    usersByPlan,
    projectUsage: {
      staticBytes: stored.bundle,
      imageBytes: stored.image,
      totalBytes: stored.bundle + stored.image,
      sourceBytes: stored.source,
    },
    disk: {
      nodes: {
        count: nodes.length,
        capacityBytes: nodes.reduce((sum, { capacity }) => sum + (capacity?.diskMb ?? 0), 0) * bytesPerMb,
        belowFloor: nodes.filter((node) => node.disk_full).length,
      },
      registryBytes: stored.bundle + stored.image + stored.source,
      databaseBytes: database.bytes,
      logBytes: database.logBytes,
    },
    system: {
      version,
      nodeVersion: process.version,
      postgresVersion: database.version,
      uptimeSeconds: Math.floor(process.uptime()),
      replicas: fleet.replicas().map(({ serverId, startedAt }) => ({ id: serverId, startedAt })),
      nodes: connection(nodes, fleet),
      edges: connection(edges, fleet),
      work,
      deleting: { users: counts.leavingUsers, projects: counts.leavingProjects },
      databaseConnections: database.connections,
    },
  };
}

const connection = (machines: readonly Node[], fleet: FleetView) => ({
  total: machines.length,
  connected: machines.filter(({ id }) => fleet.isConnected(id)).length,
});
