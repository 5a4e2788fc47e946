import type { ObservationValue } from "@svc/control/fleet/cluster/keys";
import type { SchedulableNode } from "@svc/control/fleet/scheduler/placement";
import type { ClusterState, DesiredTask, Placed } from "@svc/control/fleet/scheduler/steps";
import type { Work } from "../../kernel/kernel.ts";
import type { NodeRow } from "../../stores/postgres.ts";
import type { Replica } from "../replica.ts";

/** Everything that the scheduler decides from: mirrors `control/src/fleet/scheduler/snapshot.ts`. */
export function* readClusterState(
  replica: Replica,
  placed: ReadonlyMap<string, Placed>,
): Work<ClusterState & { observed: ReadonlyMap<string, ObservationValue> }> {
  const { fleet, world } = replica;
  const read = yield* replica.transact((tables) => ({
    nodes: [...tables.nodes.values()].filter(({ role }) => role === "node").map((node) => ({ ...node })),
    tasks: [...tables.open.values()].map((task) => ({ ...task })),
    nowMs: world.postgres.nowMs(),
  }));
  const observed = new Map(
    [...placed.values()].flatMap(({ placementId, nodeId }) => {
      const observation = fleet.observation(nodeId, placementId);
      return observation === null ? [] : [[placementId, observation] as const];
    }),
  );
  return {
    nodes: read.nodes.filter(({ lifecycle }) => lifecycle === "active").map((node) => schedulable(replica, node)),
    goneNodes: new Set(read.nodes.filter(({ lifecycle }) => lifecycle !== "active").map(({ id }) => id)),
    placed,
    observed,
    tasks: read.tasks.map(
      (task): DesiredTask => ({
        ...{ id: task.id, projectId: task.projectId, epoch: task.epoch },
        ...{ ownerKind: "deployment", ownerId: task.deploymentId },
        ...{ desired: task.desired, ...limitsOf(task.memoryMb), nodeId: task.nodeId, refused: task.refused !== null },
        ...{ kind: "serve", channel: "production", specHash: `spec of ${task.deploymentId}` },
        ...{ diskMb: 0, drainSeconds: task.drainSeconds, waitedMs: read.nowMs - task.createdAt.getTime() },
        ...{ nodeSelector: {}, pinnedTo: null, platform: null, hasDockerfile: false },
      }),
    ),
  };
}

/** A container may take more than is set aside for it: several of a node together more than the node has. */
export const limitsOf = (reservedMemoryMb: number) => ({
  ...{ memoryMb: 4 * reservedMemoryMb, cpuMillicores: 100, pidsLimit: 64, storageMb: 512 },
  ...{ reservedMemoryMb, reservedCpuMillicores: 10 },
});

/** A node with what the scheduler asks of it. */
export function schedulable(replica: Replica, node: NodeRow): SchedulableNode {
  const { fleet } = replica;
  return {
    id: node.id,
    link: fleet.nodeLink(node.id).link,
    schedulable: node.schedulable,
    draining: node.drain !== "none",
    quarantined: node.quarantinedAt !== null,
    diskFull: node.diskFull,
    memoryShort: false,
    engineStalled: false,
    refusesDockerfiles: false,
    os: "linux",
    architecture: "amd64",
    labels: {},
    zone: "",
    memoryMb: fleet.nodeSession(node.id)?.session.capacity.memoryMb ?? node.memoryMb,
    cpuMillicores: 100_000,
    pids: 100_000,
    diskMb: 0,
  };
}
