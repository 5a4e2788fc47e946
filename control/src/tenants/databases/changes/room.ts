import { databaseNeeds } from "../../../fleet/scheduler/database-needs.ts";
import { firstProblem } from "../../../fleet/scheduler/filters.ts";
import { createRoom } from "../../../fleet/scheduler/node-room.ts";
import {
  listReservations,
  type NodeLinks,
  namedNodes,
  type SchedulerFleet,
} from "../../../fleet/scheduler/snapshot.ts";
import type { NodeRow } from "../../../fleet/scheduler/store.ts";
import type { FoundBranch, ServerPlan } from "../facts.ts";
import { serverResources } from "../limits.ts";

export type RoomFleet = NodeLinks & Pick<SchedulerFleet, "placements" | "observation" | "runs">;

/**
 * Why a machine takes no server of the branch, in the scheduler's words; null: it takes one. That it does not answer for a moment is
 * none: what follows from that is seen at the copy. What the branch's own server takes there is free by then.
 */
export function serverRefusal(
  { nodes: rows, fleet }: { nodes: readonly NodeRow[]; fleet: RoomFleet },
  { branch, plan }: Pick<FoundBranch<ServerPlan>, "branch" | "plan">,
  nodeId: string,
): string | null {
  const nodes = namedNodes(rows, fleet);
  const node = nodes.find(({ id }) => id === nodeId);
  if (node === undefined) return "gone";
  const taken = listReservations(fleet).filter(({ ownerId }) => ownerId !== branch.id);
  const [room] = createRoom([{ ...node, link: "connected", engineStalled: false }], taken).nodes;
  if (room === undefined) return "gone";
  const { pidsLimit, reservedMemoryMb, reservedCpuMillicores } = serverResources(branch.engine, plan);
  return firstProblem(room, {
    ...{ id: "", projectId: branch.project_id, ownerId: branch.id, kind: "database", specHash: "", platform: null },
    ...{ memoryMb: reservedMemoryMb, cpuMillicores: reservedCpuMillicores, pidsLimit, hasDockerfile: false },
    ...databaseNeeds({ sizeMb: 0, pinnedTo: nodeId, nodeSelector: plan.node_selector }, nodes),
    pinnedTo: nodeId,
  });
}
