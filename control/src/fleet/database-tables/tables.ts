import type { DatabaseEntry } from "@svc/proto/node";
import { createBatch } from "@svc/runtime/batch";
import type { Clock } from "@svc/runtime/clock";
import type { Db } from "../../stores/db/pool.ts";
import { uuid } from "../../stores/db/uuid.ts";
import type { ClusterViews } from "../cluster/views.ts";
import { listGoneWithCertificate } from "../nodes/gone.ts";
import { loadBranchesOfNodes, type NodeUses } from "./facts.ts";
import { tableOf } from "./table.ts";

/** What a node is told of databases, and of who comes in to it no more. */
export interface NodeTable {
  entries: DatabaseEntry[];
  goneIds: string[];
}

/** Which databases nodes may reach, read afresh. What many sessions ask for at once is read together. */
export type LoadDatabaseTable = (nodeId: string) => Promise<NodeTable>;

const nodesAtOnce = 200;
const waitingMax = 100_000;

type RunningViews = Pick<ClusterViews, "placementsByNode" | "runsByNode">;

/** What runs on a node now. */
export function usesOf(views: RunningViews, nodeId: string): NodeUses {
  const placements = [...views.placementsByNode.of(nodeId).values()];
  const runs = [...views.runsByNode.of(nodeId).values()];
  return {
    nodeId,
    // One that is no id of a project must not cost the other nodes theirs.
    channels: placements.flatMap(({ value: { projectId, channel } }) =>
      uuid.test(projectId) ? [{ projectId, channel }] : [],
    ),
    ownerIds: runs.flatMap(({ value: { ownerId } }) => (uuid.test(ownerId) ? [ownerId] : [])),
  };
}

export function createDatabaseTables(clock: Clock, { db, views }: { db: Db; views: RunningViews }): LoadDatabaseTable {
  const load = createBatch<NodeTable>({
    clock,
    async ask(nodeIds) {
      const uses = nodeIds.map((nodeId) => usesOf(views, nodeId));
      const [branches, goneIds] = await Promise.all([
        loadBranchesOfNodes(db, uses),
        listGoneWithCertificate(db, clock.now()),
      ]);
      return nodeIds.map((nodeId) => ({ entries: tableOf(branches.get(nodeId) ?? []), goneIds }));
    },
    sizeMax: nodesAtOnce,
    waitingMax,
  });
  return async (nodeId) => (await load(nodeId)) ?? { entries: [], goneIds: [] };
}
