import type { DatabaseEngine } from "@svc/proto";
import { taskTopic } from "../../../../fleet/cluster/topics.ts";
import { branchTopic } from "../../../../fleet/database-tables/news.ts";
import type { DatabaseTaskSpec } from "../../../../fleet/tasks/kinds/database.ts";
import type { MemoryTask, Transact } from "../../../../fleet/testing/tables.ts";
import type { Branch } from "../../../../stores/db/tables.ts";
import { type BranchRow, nodeOfData, type ServerPlan, type ServerRow } from "../../facts.ts";
import type { BranchAt, BranchRows } from "../../rows.ts";
import { serverTask } from "../../servers.ts";
import { isSameBranch, isSameTenant, type TenantRows } from "../../tenant-rows.ts";
import { endCopies } from "./copies.ts";
import {
  type DatabaseTables,
  dropBranches,
  hasNoServer,
  moveBranch,
  type Tx,
  volumeKey,
  wakeBranch,
} from "./tables.ts";
import { placeVolume, retireVolume } from "./volumes.ts";

/** What servers run in. */
export const memoryImages: Record<DatabaseEngine, string> = { postgres: "svc/postgres", mariadb: "svc/mariadb" };

/** What is written down of passwords that were brought to a server. */
export function memoryTenantRows(transact: Transact<DatabaseTables>): TenantRows {
  const lookAgain = (
    read: Branch,
    same: (now: Branch, at: Date) => Partial<Branch> | "doubted" | null,
  ): Promise<void> =>
    transact((tx) => {
      const { branches } = tx.tables;
      const now = branches.rows.get(read.id);
      if (now === undefined) return;
      const set = isSameBranch(read, now) ? same(now, tx.now) : "doubted";
      if (set === "doubted") {
        branches.doubt(now.id);
        wakeBranch(tx, now);
      } else if (set !== null) branches.change(now.id, set);
      told(tx, now);
    });
  return {
    cutOff: (read) => lookAgain(read, () => null),
    brought: (read, role_connection_limit) =>
      lookAgain(read, ({ tenant_doubts }, tenant_at) =>
        tenant_doubts === read.tenant_doubts ? { tenant_at, role_connection_limit } : "doubted",
      ),
    rotated: (read, secret) => lookAgain(read, () => ({ secret, pending_secret: null })),
  };
}

/** What work on branches asks, answered from memory. */
export function memoryBranchRows(transact: Transact<DatabaseTables>): BranchRows {
  /** As in `rows.ts`. */
  const locked = ({ id, status }: BranchAt, act: (tx: Tx, branch: Branch) => boolean | undefined): Promise<boolean> =>
    transact((tx) => {
      const branch = tx.tables.branches.rows.get(id);
      return branch?.status === status && act(tx, branch) !== false && told(tx, branch);
    });
  return {
    ...memoryTenantRows(transact),
    find: (id) => transact((tx) => find(tx, id)),
    pin: async (of, nodeId) =>
      void (await locked(of, (tx, { id: databaseId, generation }) => {
        tx.tables.branches.change(databaseId, { node_id: nodeId });
        placeVolume(tx, { databaseId, generation, nodeId });
        return true;
      })),
    startServer: async (of) =>
      void (await locked(of, (tx, branch) => {
        if (hasNoServer(tx, branch) && !tx.tables.branches.isHeld(branch.id)) startServer(tx, branch);
        return true;
      })),
    removeServers: async (of, taskIds) =>
      void (await locked(of, ({ tables, notify }) => {
        tables.removeTasks(taskIds);
        notify(taskTopic);
        return true;
      })),
    replaceServer: async (of, taskId) =>
      void (await locked(of, ({ tables, notify }, { id, server_failures }) => {
        if (tables.tasks.get(taskId)?.desired !== "running") return false;
        tables.removeTasks([taskId]);
        notify(taskTopic);
        tables.branches.change(id, { server_failures: server_failures + 1 });
        return true;
      })),
    noteDown: (of) =>
      locked(of, ({ tables }, { id, server_failures }) => {
        if (server_failures > 0) return false;
        tables.branches.change(id, { server_failures: 1 });
        return true;
      }),
    noteServing: (of) =>
      locked(of, ({ tables }, { id, server_failures }) => {
        if (server_failures === 0) return false;
        tables.branches.change(id, { server_failures: 0 });
        return true;
      }),
    proven: (read) =>
      locked(read, (tx, now) => isSameTenant(read, now) && moveBranch(tx, now.id, { from: now.status, to: "ready" })),
    refused: async (of) =>
      void (await locked(of, ({ tables }, { id }) => {
        tables.branches.doubt(id);
        return true;
      })),
    resizeServer: (taskId, resources) =>
      transact(({ tables, notify }) => {
        const task = tables.tasks.get(taskId);
        const { storageMb: _, ...limits } = resources;
        if (task?.desired === "running") Object.assign(task, limits);
        notify(taskTopic);
      }),
    fail: (of, reason) =>
      locked(
        of,
        (tx, { id, status }) =>
          !tx.tables.branches.isHeld(id) && moveBranch(tx, id, { from: status, to: "error", reason }),
      ),
    beginDrop: (projectId) => transact((tx) => dropBranches(tx, projectId)),
    bury: (of, { nodeId, keptHours }) =>
      locked(of, (tx, branch) => {
        bury(tx, branch, nodeId, keptHours);
        return true;
      }),
  };
}

/** What Postgres itself announces of a branch that changed. */
export function told({ notify }: Tx, { id, project_id, node_id }: Branch): true {
  notify(branchTopic, [id, project_id, ...(node_id === null ? [] : [node_id])].join(" "));
  return true;
}

export function find({ tables, now }: Tx, id: string): BranchRow<ServerPlan> | null {
  const { branches, nodes } = tables;
  const branch = branches.rows.get(id);
  if (branch === undefined) return null;
  const servers = branches.serversOf(id).map((task) => serverRow(task, now));
  const nodeId = nodeOfData(branch, servers);
  return {
    ...{ branch, plan: branches.plan, servers },
    sinceMs: now.getTime() - branch.status_at.getTime(),
    projectGone: branches.deleting.has(branch.project_id),
    suspended: branches.suspended.has(branch.project_id),
    nodeGone: nodeId !== null && nodes.get(nodeId)?.lifecycle !== "active",
    changing: branches.isHeld(id),
  };
}

const serverRow = (task: MemoryTask, now: Date): ServerRow => ({
  ...{ id: task.id, epoch: task.epoch, desired: task.desired, node_id: task.nodeId, refused: task.refused },
  ...{ reaped_at: task.reapedAt, spec: task.server, memory_mb: task.memoryMb, cpu_millicores: task.cpuMillicores },
  age_ms: now.getTime() - task.createdAt.getTime(),
});

export function startServer(
  { tables, now, notify }: Tx,
  branch: Branch,
  {
    images = memoryImages,
    restore = null,
  }: { images?: Record<DatabaseEngine, string>; restore?: DatabaseTaskSpec["restore"] } = {},
): void {
  const { branches } = tables;
  const asked = serverTask(branch, branches.plan, images, restore);
  const { spec, pinnedTo = null, nodeSelector: _, ...resources } = asked;
  const task = tables.insert({
    ...{ projectId: branch.project_id, channel: branch.channel, ownerKind: "database", ownerId: branch.id },
    ...{ kind: "database", replica: 0, cause: null, createdAt: now, specHash: JSON.stringify(spec), ...resources },
    ...{ pinnedTo, server: spec },
  });
  branches.addTask(task);
  notify(taskTopic);
}

function bury(tx: Tx, branch: Branch, nodeId: string | null, keptHours: number): void {
  const { branches, tasks } = tx.tables;
  const { id: databaseId, generation } = branch;
  endCopies(tx, databaseId, keptHours);
  if (nodeId === null) branches.volumes.delete(volumeKey(databaseId, generation));
  else {
    retireVolume(tx, { databaseId, generation, nodeId }, { state: "dropped", keptHours });
    branches.dropped.set(databaseId, branch);
  }
  for (const { id, reapedAt } of branches.serversOf(databaseId)) if (reapedAt !== null) tasks.delete(id);
  branches.forget(databaseId);
}
