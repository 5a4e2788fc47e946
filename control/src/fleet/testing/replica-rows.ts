import type { FleetNode } from "../cluster/nodes.ts";
import { routeTopic, taskTopic } from "../cluster/topics.ts";
import type { ReplacedRow, ReplicaRows } from "../replicas/rows.ts";
import type { Site } from "../replicas/steps.ts";
import { drainSecondsAfter } from "../tasks/drain.ts";
import { inFencedMemory } from "./fenced.ts";
import type { MemoryTables, MemoryTask, Transact } from "./tables.ts";

const hourMs = 3_600_000;

/** What is asked to keep sites at their number of replicas, answered from memory. Every deployment there has containers. */
export const memoryReplicaRows = (transact: Transact): ReplicaRows => ({
  sites: () =>
    transact(({ tables }) =>
      [...tables.sites.values()].flatMap(({ projectId, deploymentId, stopped }) =>
        deploymentId !== null && !stopped && tables.deployments.get(deploymentId)?.status === "running"
          ? [{ id: deploymentId, project_id: projectId, channel: "production" as const, pr_number: null }]
          : [],
      ),
    ),
  sizes: (deploymentIds) =>
    transact(({ tables }) =>
      deploymentIds.flatMap((id) => {
        const deployment = tables.deployments.get(id);
        return deployment === undefined ? [] : [{ id, replicas: deployment.replicas }];
      }),
    ),
  tasks: (deploymentIds) =>
    transact(({ tables, now }) =>
      containersOf(tables, deploymentIds).map((task) => ({
        ...{ id: task.id, owner_id: task.ownerId, replica: task.replica, epoch: task.epoch, node_id: task.nodeId },
        ...{ served: task.servedAt !== null, refused: task.refused !== null },
        retiring_ms_ago: task.retiringAt === null ? null : now.getTime() - task.retiringAt.getTime(),
      })),
    ),
  replaced: (deploymentIds) => transact(({ tables, now }) => replacedOf(tables, deploymentIds, now)),
  names: (projectIds) =>
    transact(({ tables }) =>
      [...tables.sites.values()]
        .filter(({ projectId }) => projectIds.includes(projectId))
        .map(({ host, projectId }) => ({
          ...{ host, project_id: projectId, channel: "production" as const, pr_number: null },
        })),
    ),
  nodes: () => transact(({ tables }) => fleetNodes(tables)),
  edges: () => transact(({ tables }) => tables.edgesInRotation()),
  noteServed: (epoch, taskIds) =>
    inFencedMemory(transact, epoch, ({ tables, now }) => {
      for (const id of taskIds) {
        const task = tables.tasks.get(id);
        if (task !== undefined) task.servedAt ??= now;
      }
    }),
  carryOut: ({ epoch, drainMs }, site, steps) =>
    inFencedMemory(transact, epoch, ({ tables, now, notify }) => {
      const deployment = tables.deployments.get(site.deploymentId);
      if (deployment?.status !== "running" || !isServed(tables, deployment.id) || !isUnchanged(tables, site))
        return false;
      const { id: deploymentId, projectId, drainSeconds } = deployment;
      for (const step of steps) {
        if (step.do === "retire") {
          const task = tables.tasks.get(step.taskId);
          if (task !== undefined) task.retiringAt ??= now;
          notify(routeTopic, projectId);
        } else {
          if (step.do === "remove") tables.removeTasks([step.taskId], drainSecondsAfter(drainSeconds, drainMs));
          else {
            tables.insertContainer({ projectId, deploymentId, replica: step.slot, cause: step.cause, createdAt: now });
            tables.lines.push({ of: deploymentId, what: "replica-replaced", at: now });
          }
          notify(taskTopic);
        }
      }
      return true;
    }),
});

/** Every node, or those of `ids`, as `readNodes` has them. */
export const fleetNodes = (tables: MemoryTables, ids?: readonly string[]): Map<string, FleetNode> =>
  new Map(
    [...tables.nodes.values()]
      .filter(({ id, role }) => role === "node" && (ids?.includes(id) ?? true))
      .map(({ id, lifecycle, drain, quarantinedAt }) => [
        id,
        { id, lifecycle, drain, quarantined_at: quarantinedAt, engine_stalled: false },
      ]),
  );

const containersOf = (tables: MemoryTables, deploymentIds: readonly string[]): MemoryTask[] =>
  [...tables.tasks.values()].filter(
    ({ ownerId, kind, desired }) => kind === "serve" && desired === "running" && deploymentIds.includes(ownerId),
  );

function replacedOf(tables: MemoryTables, deploymentIds: readonly string[], now: Date): ReplacedRow[] {
  const found = new Map<string, ReplacedRow>();
  for (const { ownerId, replica, cause, servedAt, retiringAt, createdAt } of tables.tasks.values()) {
    const didItsPart = servedAt !== null && retiringAt !== null;
    const agoMs = now.getTime() - createdAt.getTime();
    if (cause === null || didItsPart || agoMs >= hourMs || !deploymentIds.includes(ownerId)) continue;
    const { count, last_ms_ago } = found.get(`${ownerId} ${replica}`) ?? { count: 0, last_ms_ago: hourMs };
    found.set(`${ownerId} ${replica}`, {
      ...{ owner_id: ownerId, replica, count: count + 1, last_ms_ago: Math.min(last_ms_ago, agoMs) },
    });
  }
  return [...found.values()];
}

const isServed = (tables: MemoryTables, deploymentId: string): boolean =>
  [...tables.sites.values()].some((site) => site.deploymentId === deploymentId && !site.stopped);

function isUnchanged(tables: MemoryTables, { deploymentId, running }: Site): boolean {
  const known = new Map(running.map(({ taskId, retiring }) => [taskId, retiring]));
  const tasks = containersOf(tables, [deploymentId]);
  return tasks.length === known.size && tasks.every(({ id, retiringAt }) => known.get(id) === (retiringAt !== null));
}
