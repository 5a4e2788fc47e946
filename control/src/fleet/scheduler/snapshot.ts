import type { NodeAxes } from "@svc/proto";
import type { Db } from "../../stores/db/pool.ts";
import type { Entry } from "../../stores/etcd/index.ts";
import type { Fleet } from "../cluster/fleet.ts";
import { keyParts, type ObservationValue, placementValue, prefix } from "../cluster/keys.ts";
import { zoneOf } from "../cluster/labels.ts";
import { rulesOf } from "../tasks/kinds/index.ts";
import type { OpenTask } from "../tasks/store.ts";
import { commandReservations } from "./commands.ts";
import { databaseNeeds } from "./database-needs.ts";
import type { Reservation, SchedulableNode } from "./placement.ts";
import { type ClusterState, type DesiredTask, type Placed, reservationsOf } from "./steps.ts";
import { listNodeRows, type NodeRow, type SchedulerRows } from "./store.ts";

/** The part of the fleet's facts that decisions about placements rest on. */
export type SchedulerFleet = Pick<Fleet, "nodeSession" | "nodeLink" | "now" | "placements" | "observation" | "runs">;

const unknownCapacity = { memoryMb: 0, cpuMillicores: 0, pids: 0, diskMb: 0 };

/** A node as people know it. */
export interface NamedNode extends SchedulableNode {
  name: string;
  drain: NodeAxes["drain"];
}

/** What is known of the streams of nodes; without `nodeSession`, what Postgres keeps of the last hello is used. */
export type NodeLinks = Pick<SchedulerFleet, "nodeLink"> & Partial<Pick<SchedulerFleet, "nodeSession">>;

/** Every node that joined and is not fenced or removed, by id, with what it said of itself at its last hello. */
export const listSchedulableNodes = async (db: Db, fleet: NodeLinks): Promise<NamedNode[]> =>
  namedNodes(await listNodeRows(db), fleet);

export const namedNodes = (rows: readonly NodeRow[], fleet: NodeLinks): NamedNode[] =>
  rows.map((node) => {
    const session = fleet.nodeSession?.(node.id)?.session;
    const capacity = session?.capacity ?? node.capacity ?? unknownCapacity;
    const platform = session?.platform ?? node.platform ?? { os: "linux", architecture: "" };
    return {
      id: node.id,
      name: node.name,
      drain: node.drain,
      link: fleet.nodeLink(node.id).link,
      schedulable: node.schedulable,
      draining: node.drain !== "none",
      drained: node.drain === "drained",
      quarantined: node.quarantined_at !== null,
      diskFull: node.disk_full,
      memoryShort: node.memory_short,
      engineStalled: node.engine_stalled,
      refusesDockerfiles: node.dockerfile_problem !== null,
      labels: node.operator_labels,
      zone: zoneOf(node) ?? "",
      ...{ os: platform.os, architecture: platform.architecture },
      ...{ memoryMb: capacity.memoryMb, cpuMillicores: capacity.cpuMillicores },
      ...{ pids: capacity.pids, diskMb: capacity.diskMb },
    };
  });

const placedMap = (fleet: Pick<SchedulerFleet, "placements">): Map<string, Placed> =>
  new Map(
    fleet
      .placements()
      .map(({ nodeId, placement, modRevision }) => [placement.placementId, { ...placement, nodeId, modRevision }]),
  );

function observedMap(fleet: Pick<SchedulerFleet, "observation">, placed: ReadonlyMap<string, Placed>) {
  const observed = new Map<string, ObservationValue>();
  for (const { placementId, nodeId } of placed.values()) {
    const observation = fleet.observation(nodeId, placementId);
    if (observation) observed.set(placementId, observation);
  }
  return observed;
}

/** What is taken on each node now. */
export function listReservations(fleet: Pick<SchedulerFleet, "placements" | "observation" | "runs">): Reservation[] {
  const placed = placedMap(fleet);
  const commands = commandReservations(fleet.runs());
  return reservationsOf({ placed, observed: observedMap(fleet, placed), goneNodes: new Set(), commands });
}

/** A placement with the node that it is on. Throws when the value is none. */
export function placedOf({ key, value, modRevision }: Pick<Entry, "key" | "value" | "modRevision">): Placed {
  const nodeId = keyParts(key, prefix.placements)[0] ?? "";
  return { ...placementValue.parse(JSON.parse(value)), nodeId, modRevision };
}

/** What decisions rest on, and what Postgres says of why tasks wait or keep what they have. */
export interface ClusterRead extends ClusterState {
  observed: ReadonlyMap<string, ObservationValue>;
  reasons: ReadonlyMap<string, Readonly<Record<string, number>>>;
}

/**
 * Everything that one scheduling round rests on, read at this moment. `placed` is this replica's view unless
 * given, and that may be a moment behind.
 */
export async function readClusterState(
  rows: Pick<SchedulerRows, "nodes" | "goneNodes" | "openTasks">,
  fleet: SchedulerFleet,
  placed: ReadonlyMap<string, Placed> = placedMap(fleet),
): Promise<ClusterRead> {
  const [nodeRows, tasks, gone] = await Promise.all([rows.nodes(), rows.openTasks(), rows.goneNodes()]);
  const nodes = namedNodes(nodeRows, fleet);
  return {
    nodes,
    goneNodes: new Set(gone),
    placed,
    observed: observedMap(fleet, placed),
    commands: commandReservations(fleet.runs()),
    tasks: tasks.map((task) => desiredTask(task, nodes)),
    reasons: new Map(tasks.flatMap(({ id, refused }) => (refused === null ? [] : [[id, refused]]))),
  };
}

const bytesPerMb = 1024 * 1024;

/** What the node of a task must have; a database says so itself, everything else by its image. */
function needsOf(task: OpenTask, nodes: readonly SchedulableNode[]): Pick<DesiredTask, "nodeSelector" | "diskMb"> {
  const { pinned_to: pinnedTo, node_selector: nodeSelector, database_size_mb: sizeMb, artifact_size } = task;
  if (sizeMb !== null) return databaseNeeds({ sizeMb, pinnedTo, nodeSelector }, nodes);
  const diskMb = rulesOf(task.kind).hasImage ? Math.ceil((artifact_size ?? 0) / bytesPerMb) : 0;
  return { nodeSelector, diskMb };
}

const desiredTask = (task: OpenTask, nodes: readonly SchedulableNode[]): DesiredTask => ({
  id: task.id,
  projectId: task.project_id,
  ownerKind: task.owner_kind,
  ownerId: task.owner_id,
  kind: task.kind,
  channel: task.channel,
  epoch: task.epoch,
  desired: task.desired,
  drainSeconds: task.drain_seconds,
  nodeId: task.node_id,
  refused: task.refused !== null,
  waitedMs: task.waited_ms,
  specHash: task.spec_hash,
  memoryMb: task.memory_mb,
  cpuMillicores: task.cpu_millicores,
  pidsLimit: task.pids_limit,
  storageMb: task.storage_mb,
  reservedMemoryMb: task.reserved_memory_mb ?? task.memory_mb,
  reservedCpuMillicores: task.reserved_cpu_millicores ?? task.cpu_millicores,
  ...needsOf(task, nodes),
  pinnedTo: task.pinned_to,
  hasDockerfile: task.has_dockerfile,
  platform:
    rulesOf(task.kind).hasImage && task.os && task.architecture
      ? { os: task.os, architecture: task.architecture }
      : null,
});
