import { taskTopic } from "../../../../fleet/cluster/topics.ts";
import { retireKey } from "../../../../fleet/tasks/deployment.ts";
import type { Transact } from "../../../../fleet/testing/tables.ts";
import type { LifecyclePayload, LifecycleRow, LifecycleRows } from "../../lifecycle/rows.ts";
import { pointChannel, retire } from "./channel.ts";
import { fillSlots } from "./make.ts";
import { type DeploymentTables, healthTimeoutSeconds, moveDeployment, type Tx } from "./tables.ts";

/** What stops and starts ask, answered from memory. */
export const memoryLifecycleRows = (transact: Transact<DeploymentTables>): LifecycleRows => ({
  find: ({ id, payload }) => transact((tx) => find(tx, id, payload as LifecyclePayload)),
  close: ({ projectId, deploymentId }) =>
    transact((tx) => {
      if (tx.tables.deployments.get(deploymentId)?.status === "running") show(tx, projectId, deploymentId, true);
    }),
  stopped: ({ projectId, deploymentId }) =>
    transact((tx) => {
      if (!moveDeployment(tx, deploymentId, { from: "running", to: "stopped", phase: "stopped" })) return false;
      retire(tx, deploymentId);
      tx.tables.endDrains(projectId);
      tx.notify(taskTopic);
      return true;
    }),
  make: ({ projectId, deploymentId }, what) =>
    transact((tx) => {
      const { tables } = tx;
      const row = tables.deployments.get(deploymentId);
      const isIts = tables.siteOf(projectId)?.deploymentId === deploymentId;
      if (row?.status === "stopped" && isIts && !tables.suspended.has(projectId)) fillSlots(tx, row, what);
    }),
  open: ({ projectId, deploymentId }) =>
    transact((tx) => {
      const { deployments, suspended } = tx.tables;
      const isStopped = deployments.get(deploymentId)?.status === "stopped";
      if (isStopped && !suspended.has(projectId)) show(tx, projectId, deploymentId, false);
    }),
  started: ({ deploymentId }) =>
    transact((tx) => {
      if (!moveDeployment(tx, deploymentId, { from: "stopped", to: "running", phase: "started" })) return false;
      Object.assign(tx.tables.deployments.get(deploymentId) ?? {}, { error: null });
      return true;
    }),
  fail: ({ projectId, deploymentId }, error) =>
    transact((tx) => {
      const { tables, now, notify } = tx;
      const row = tables.deployments.get(deploymentId);
      if (row?.status !== "stopped") return;
      row.error = error;
      tables.lines.push({ of: deploymentId, what: "start-failed", at: now });
      if (show(tx, projectId, deploymentId, true)) return retire(tx, deploymentId);
      tables.removeTasks(tables.wantedTasksOf(deploymentId).map(({ id }) => id));
      notify(taskTopic);
    }),
});

/** If production leads to it still; whether it showed something else. */
function show(tx: Tx, projectId: string, deploymentId: string, stopped: boolean): boolean {
  const site = tx.tables.siteOf(projectId);
  if (site?.deploymentId !== deploymentId || site.stopped === stopped) return false;
  pointChannel(tx, projectId, { deploymentId, stopped });
  return true;
}

function find({ tables, now }: Tx, itemId: number, { projectId, action, deploymentId: askedId }: LifecyclePayload) {
  const site = tables.siteOf(projectId);
  const row = tables.deployments.get((action === "stop" ? site?.deploymentId : askedId) ?? "");
  if (row === undefined) return null;
  const { id: deploymentId, status, error, replicas } = row;
  const asked = tables.deployments.get(askedId);
  const isCovered =
    deploymentId === askedId || row.heldAt !== null || (asked !== undefined && row.number < asked.number);
  const app = {
    ...{ replicas, healthTimeoutSeconds },
    tasks: tables.tasksOf(deploymentId).map(({ id, replica, createdAt, desired, nodeId, refused }) => ({
      ...{ id, replica, created_at: createdAt, desired, node_id: nodeId, refused },
    })),
  };
  return {
    ...{ projectId, deploymentId, status, error, now },
    askedAt: tables.work.items.get(itemId)?.createdAt ?? now,
    ...{ projectGone: false, suspended: tables.suspended.has(projectId) },
    channel: site?.deploymentId === deploymentId ? { stopped: site.stopped, since: site.changedAt } : null,
    hosts: tables.hostsOf(projectId),
    edges: tables.edgesInRotation(),
    isCovered: action === "stop" && isCovered,
    retiring: action === "start" && tables.work.hasOpen(retireKey(deploymentId)),
    app: action === "start" ? app : null,
  } satisfies LifecycleRow;
}
