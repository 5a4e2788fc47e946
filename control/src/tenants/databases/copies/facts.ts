import { copyTooLarge } from "@svc/proto";
import type { Fleet } from "../../../fleet/cluster/fleet.ts";
import { hasEnded } from "../../../fleet/cluster/keys.ts";
import { type CopyPlace, placeCopy, tierOf } from "../../../fleet/scheduler/copy-place.ts";
import { databaseNeeds } from "../../../fleet/scheduler/database-needs.ts";
import { createRoom } from "../../../fleet/scheduler/node-room.ts";
import { listReservations, type NamedNode, type NodeLinks, namedNodes } from "../../../fleet/scheduler/snapshot.ts";
import { keeper, keeperTask } from "../../../fleet/tasks/kinds/keeper.ts";
import type { Plan } from "../../../stores/db/tables.ts";
import { type FoundBranch, foundBranch, type ServerPlan } from "../facts.ts";
import { keeperWork } from "./keepers.ts";
import type { CopiesRow, CopyRows, KeeperRow, OpenCopy } from "./rows.ts";
import type { CopiesFacts, CopyFacts, KeeperFacts } from "./steps.ts";

export type CopiesFleet = Pick<Fleet, "observation" | "placements" | "runs"> & NodeLinks;

export interface FoundCopies extends FoundBranch<ServerPlan> {
  copies: CopiesFacts;
}

/** Everything that decides the next step for the copies of a branch, read afresh; null when it is no more. */
export async function readCopiesFacts(
  { rows, fleet, isWanted }: { rows: Pick<CopyRows, "find">; fleet: CopiesFleet; isWanted: boolean },
  databaseId: string,
): Promise<FoundCopies | null> {
  const row = await rows.find(databaseId);
  return row && foundCopies(row, { fleet, isWanted });
}

/** What is written down, with what the fleet says. */
function foundCopies(
  { branch: row, copies, isChanging, mayHoldLog, ...read }: CopiesRow<ServerPlan>,
  { fleet, isWanted }: { fleet: CopiesFleet; isWanted: boolean },
): FoundCopies {
  const found = foundBranch(row, fleet);
  const { branch, facts, plan } = found;
  const nodes = namedNodes(read.nodes, fleet);
  const dataNode = branch.node_id === null ? null : nodeOf(nodes, branch.node_id);
  return {
    ...found,
    copies: {
      ...{ isWanted, status: branch.status, generation: branch.generation, suspended: facts.suspended },
      projectGone: facts.projectGone,
      isServing: facts.servers.some(({ wanted, state }) => wanted && state === "serving"),
      ...{ isChanging, hasPassword: branch.keeper_secret !== null, mayHoldLog },
      copies: copies.map((copy) => ({
        ...copyFacts(copy, dataNode, nodes),
        keepers: copy.keepers.map((task) => keeperFacts(task, plan, fleet)),
      })),
      best: dataNode === null ? null : bestPlace({ fleet, nodes, dataNode, plan, copies }),
    },
  };
}

const nodeOf = (nodes: readonly NamedNode[], id: string) => nodes.find((node) => node.id === id) ?? { id };

function bestPlace({
  fleet,
  nodes,
  dataNode,
  plan,
  copies,
}: {
  fleet: CopiesFleet;
  nodes: readonly NamedNode[];
  dataNode: { id: string; zone?: string };
  plan: ServerPlan;
  copies: readonly OpenCopy[];
}): CopyPlace | null {
  const work = keeperWork(plan);
  const needs = databaseNeeds({ sizeMb: work.sizeMb, pinnedTo: null, nodeSelector: plan.node_selector }, nodes);
  const task = keeperTask({ ...work, databaseId: "", engine: "postgres", image: "" }, dataNode.id);
  return placeCopy(
    createRoom(nodes, listReservations(fleet)),
    {
      ...{ id: "", projectId: "", ownerId: "", kind: "keeper", specHash: "", platform: null, pinnedTo: null },
      ...{ memoryMb: task.reservedMemoryMb, cpuMillicores: task.reservedCpuMillicores, pidsLimit: task.pidsLimit },
      // Its volumes are what a server's are: whole copies, and the log between them.
      ...{ nodeSelector: needs.nodeSelector, diskMb: work.sizeMb, hasDockerfile: false },
    },
    { data: dataNode, apart: new Set(copies.flatMap(({ node_id }) => node_id ?? [])) },
  );
}

function copyFacts(
  copy: OpenCopy,
  dataNode: { id: string; zone?: string } | null,
  nodes: readonly NamedNode[],
): Omit<CopyFacts, "keepers"> {
  const { id, purpose, generation, node_id: nodeId, state, lifecycle, drain } = copy;
  return {
    ...{ id, purpose, generation, nodeId, isFresh: copy.is_fresh, isLetIn: copy.is_let_in },
    ...{ ageMs: copy.age_ms, lackingMs: copy.lacking_ms, isTooLarge: copy.problem === copyTooLarge },
    nodeGone: nodeId !== null && lifecycle !== "active",
    nodeLeaving: drain !== null && drain !== "none",
    tier: nodeId === null || dataNode === null ? null : tierOf(nodeOf(nodes, nodeId), dataNode),
    state: state === "ended" ? "broken" : state,
  };
}

function keeperFacts(task: KeeperRow, plan: Pick<Plan, "db_size_mb">, fleet: Pick<Fleet, "observation">): KeeperFacts {
  const seen = task.node_id === null ? null : fleet.observation(task.node_id, task.id);
  return {
    ...{ taskId: task.id, wanted: task.desired === "running", ageMs: task.age_ms },
    failed: seen !== null && hasEnded(seen.observed),
    isCurrent: keeper.spec.parse(task.spec).sizeMb === keeperWork(plan).sizeMb,
  };
}
