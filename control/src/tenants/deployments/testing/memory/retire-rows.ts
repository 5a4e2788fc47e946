import { taskTopic } from "../../../../fleet/cluster/topics.ts";
import { drainSecondsLeft } from "../../../../fleet/tasks/drain.ts";
import type { Transact } from "../../../../fleet/testing/tables.ts";
import type { RetireRows } from "../../retire/rows.ts";
import type { DeploymentTables } from "./tables.ts";

/** What ends of deployments ask, answered from memory. Nothing is built there. */
export const memoryRetireRows = (transact: Transact<DeploymentTables>): RetireRows => ({
  find: (deploymentId) =>
    transact(({ tables }) => {
      const row = tables.deployments.get(deploymentId);
      if (row === undefined) return null;
      const site = tables.siteOf(row.projectId);
      const tasks = tables.tasksOf(deploymentId).filter(({ desired }) => desired !== "removed");
      return {
        serves: site?.deploymentId === deploymentId && !site.stopped,
        builds: [],
        containers: tasks.map(({ id, nodeId }) => ({ id, node_id: nodeId })),
        hosts: tables.hostsOf(row.projectId),
      };
    }),
  edges: () => transact(({ tables }) => tables.edgesInRotation()),
  async remove(taskIds) {
    if (taskIds.length === 0) return;
    await transact(({ tables, notify }) => {
      tables.removeTasks(taskIds);
      notify(taskTopic);
    });
  },
  drainedForMs: (itemId) =>
    transact(({ tables, now }) => {
      const item = tables.work.items.get(itemId);
      if (item === undefined) throw new Error(`there is no work ${itemId}`);
      const { drainedAt = now } = item.payload as { drainedAt?: Date };
      item.payload = { ...(item.payload as object), drainedAt };
      return now.getTime() - drainedAt.getTime();
    }),
  drain: (deploymentId, taskIds, waitedMs) =>
    transact(({ tables, notify }) => {
      const row = tables.deployments.get(deploymentId);
      const site = tables.siteOf(row?.projectId ?? "");
      const isServed = site !== null && site.deploymentId !== null;
      const drainSeconds =
        row === undefined
          ? 0
          : drainSecondsLeft({
              status: row.status,
              projectIsOff: tables.suspended.has(row.projectId),
              channel: !isServed ? "empty" : site.stopped ? "stopped" : "serves",
              drainSeconds: row.drainSeconds,
              waitedMs,
            });
      tables.removeTasks(taskIds, drainSeconds);
      notify(taskTopic);
    }),
});
