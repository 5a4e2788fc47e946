import type { Fleet } from "../cluster/fleet.ts";
import { keyParts, type ObservationValue, placementValue, prefix } from "../cluster/keys.ts";
import type { Db } from "../db/pool.ts";
import type { Etcd } from "../etcd/index.ts";
import { listOpenTasks } from "../tasks/store.ts";
import type { Reservation, SchedulableNode } from "./placement.ts";
import { type ClusterState, type DesiredTask, type Placed, reservationsOf } from "./steps.ts";

/** Every node that joined and is not fenced or removed, with what it said of itself at its last hello. */
export async function listSchedulableNodes(db: Db, fleet: Fleet): Promise<SchedulableNode[]> {
  const nodes = await db
    .selectFrom("node")
    .selectAll()
    .where("role", "=", "node")
    .where("lifecycle", "=", "active")
    .execute();
  return nodes.map((node) => {
    const live = fleet.nodeSession(node.id);
    return {
      id: node.id,
      connected: live?.serverAlive === true && live.session.reconciled,
      schedulable: node.schedulable,
      diskFull: node.disk_full,
      os: live?.session.platform.os ?? node.platform?.os ?? "linux",
      architecture: live?.session.platform.architecture ?? node.platform?.architecture ?? "",
      memoryMb: live?.session.capacity.memoryMb ?? node.capacity?.memoryMb ?? 0,
      cpuMillicores: live?.session.capacity.cpuMillicores ?? node.capacity?.cpuMillicores ?? 0,
      pids: live?.session.capacity.pids ?? node.capacity?.pids ?? 0,
    };
  });
}

const placedMap = (fleet: Fleet): Map<string, Placed> =>
  new Map(
    fleet
      .placements()
      .map(({ nodeId, placement, modRevision }) => [placement.placementId, { ...placement, nodeId, modRevision }]),
  );

function observedMap(fleet: Fleet, placed: ReadonlyMap<string, Placed>) {
  const observed = new Map<string, ObservationValue>();
  for (const { placementId, nodeId } of placed.values()) {
    const observation = fleet.observation(nodeId, placementId);
    if (observation) observed.set(placementId, observation);
  }
  return observed;
}

/** What is taken on each node now. */
export function listReservations(fleet: Fleet): Reservation[] {
  const placed = placedMap(fleet);
  return reservationsOf({ placed, observed: observedMap(fleet, placed), goneNodes: new Set() });
}

/** Placements as etcd itself has them now: what is absent here is absent. */
export async function readPlaced(etcd: Etcd): Promise<Map<string, Placed>> {
  const { entries } = await etcd.range(prefix.placements);
  return new Map(
    entries.map(({ key, value, modRevision }) => {
      const placement = placementValue.parse(JSON.parse(value));
      const nodeId = keyParts(key, prefix.placements)[0] ?? "";
      return [placement.placementId, { ...placement, nodeId, modRevision }];
    }),
  );
}

/**
 * Everything that one scheduling round rests on, read at this moment. `placed` is this replica's view unless
 * given, and that may be a moment behind.
 */
export async function readClusterState(
  db: Db,
  fleet: Fleet,
  placed: ReadonlyMap<string, Placed> = placedMap(fleet),
): Promise<ClusterState> {
  const [nodes, tasks, gone] = await Promise.all([
    listSchedulableNodes(db, fleet),
    listOpenTasks(db),
    db.selectFrom("node").select("id").where("lifecycle", "!=", "active").execute(),
  ]);
  return {
    nodes,
    goneNodes: new Set(gone.map(({ id }) => id)),
    placed,
    observed: observedMap(fleet, placed),
    tasks: tasks.map(
      (task): DesiredTask => ({
        id: task.id,
        projectId: task.project_id,
        deploymentId: task.deployment_id,
        kind: task.kind,
        channel: task.channel,
        epoch: task.epoch,
        desired: task.desired,
        nodeId: task.node_id,
        refused: task.refused !== null,
        specHash: task.spec_hash,
        memoryMb: task.memory_mb,
        cpuMillicores: task.cpu_millicores,
        pidsLimit: task.pids_limit,
        platform:
          task.kind === "serve" && task.os && task.architecture
            ? { os: task.os, architecture: task.architecture }
            : null,
      }),
    ),
  };
}
