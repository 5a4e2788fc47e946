import type { DatabaseEngine } from "@svc/proto";
import type { UpdateObject } from "kysely";
import { clearAlert, dropAlert, raiseAlert } from "../../fleet/alerts/raise.ts";
import { taskTopic } from "../../fleet/cluster/topics.ts";
import { lockTasks, removeTasks } from "../../fleet/tasks/change.ts";
import type { TaskResources } from "../../fleet/tasks/kinds/kind.ts";
import type { Database } from "../../stores/db/gen/tables.ts";
import { notify } from "../../stores/db/notify.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Branch } from "../../stores/db/tables.ts";
import { holdsBranch } from "./changes/store.ts";
import { type BranchPlan, type BranchRow, findBranchRow } from "./facts.ts";
import { holdPlanOfBranch, startServer } from "./servers.ts";
import { buryBranch, doubted, dropBranches, failingAlert, lockBranch, mayStartServer, moveBranch } from "./store.ts";
import { isSameTenant, type TenantRows, tenantRows } from "./tenant-rows.ts";
import { placeVolume } from "./volumes/store.ts";

/** A branch with the status that it had when it was read. */
export type BranchAt = Pick<Branch, "id" | "status">;

/**
 * What work on branches asks of Postgres. Each change is one transaction that looks again at what it rests on, as long as the branch
 * has the status that it was read with: otherwise it does nothing. Each may be repeated.
 */
export interface BranchRows extends TenantRows {
  /** Null: it is no more. */
  find(id: string): Promise<BranchRow<BranchPlan> | null>;
  /** Its data is on that node. */
  pin(of: BranchAt, nodeId: string): Promise<void>;
  /** It gets a server, by the plan of its owner now, unless one is there that is not over; see `mayStartServer`. */
  startServer(of: BranchAt): Promise<void>;
  removeServers(of: BranchAt, taskIds: readonly string[]): Promise<void>;
  /** A server that failed is to go, and counts once. */
  replaceServer(of: BranchAt, taskId: string): Promise<void>;
  /** Its server is down, as far as nobody has said so: its owner is told. False: that is known. */
  noteDown(of: BranchAt, reason: string): Promise<boolean>;
  /** Its server serves again, and its owner is told that, too. */
  noteServing(of: BranchAt): Promise<boolean>;
  /** Whoever has the password of `read` was let in: it is ready. False: it is not, since that is another one's by now. */
  proven(read: Branch): Promise<boolean>;
  /** Its own password is refused: whatever was made there is made again. */
  refused(of: BranchAt): Promise<void>;
  /** The server gets what its owner's plan gives now. */
  resizeServer(taskId: string, resources: TaskResources): Promise<void>;
  /** False: what it is at is not the worker's to say any more. */
  fail(of: BranchAt, reason: string): Promise<boolean>;
  /** All branches of a project are to go. */
  beginDrop(projectId: string): Promise<void>;
  /** It is no more; what it has on a node is kept for so many hours. False: it is there still. */
  bury(of: BranchAt, kept: { nodeId: string | null; keptHours: number }): Promise<boolean>;
}

/** @param images what new servers run in */
export function branchRows(db: Db, images: Readonly<Record<DatabaseEngine, string>>): BranchRows {
  /** Runs `act` with the branch held, if it has the status that it was read with; false: it has not, or `act` says so. */
  const locked = ({ id, status }: BranchAt, act: (tx: Db, branch: Branch) => Promise<unknown>): Promise<boolean> =>
    db.transaction().execute(async (tx) => {
      const branch = await lockBranch(tx, id);
      return branch?.status === status && (await act(tx, branch)) !== false;
    });

  const columns = (tx: Db, id: string, change: UpdateObject<Database, "database">) =>
    tx.updateTable("database").set(change).where("id", "=", id).execute();

  return {
    ...tenantRows(db),
    find: (id) => findBranchRow(db, id),

    pin: async (of, nodeId) =>
      void (await locked(of, async (tx, { id, generation }) => {
        await columns(tx, id, { node_id: nodeId });
        await placeVolume(tx, { databaseId: id, generation, nodeId });
      })),

    startServer: ({ id, status }) =>
      db.transaction().execute(async (tx) => {
        const plan = await holdPlanOfBranch(tx, id);
        if (plan === null) return;
        const branch = await lockBranch(tx, id);
        if (branch?.status === status && (await mayStartServer(tx, branch)))
          await startServer(tx, branch, plan, images);
      }),

    removeServers: async (of, taskIds) => void (await locked(of, (tx) => removeTasks(tx, taskIds))),

    replaceServer: async (of, taskId) =>
      void (await locked(of, async (tx, { id, server_failures }) => {
        const task = await tx.selectFrom("task").select("desired").where("id", "=", taskId).executeTakeFirst();
        if (task?.desired !== "running") return;
        await removeTasks(tx, [taskId]);
        await columns(tx, id, { server_failures: server_failures + 1 });
      })),

    noteDown: (of, detail) =>
      locked(of, async (tx, branch) => {
        if (branch.server_failures > 0) return false;
        await columns(tx, branch.id, { server_failures: 1 });
        await raiseAlert(tx, { ...failingAlert(branch), detail });
      }),

    noteServing: (of) =>
      locked(of, async (tx, branch) => {
        if (branch.server_failures === 0) return false;
        await columns(tx, branch.id, { server_failures: 0 });
        await clearAlert(tx, failingAlert(branch));
      }),

    proven: (read) =>
      locked(
        read,
        async (tx, now) => isSameTenant(read, now) && (await moveBranch(tx, now.id, { from: now.status, to: "ready" })),
      ),

    refused: async (of) => void (await locked(of, async (tx, { id }) => void (await columns(tx, id, doubted)))),

    resizeServer: (taskId, resources) =>
      db.transaction().execute(async (tx) => {
        const { memoryMb, cpuMillicores, pidsLimit, reservedMemoryMb, reservedCpuMillicores } = resources;
        await lockTasks(tx, [taskId]);
        await tx
          .updateTable("task")
          .set({
            ...{ memory_mb: memoryMb, cpu_millicores: cpuMillicores, pids_limit: pidsLimit },
            ...{ reserved_memory_mb: reservedMemoryMb, reserved_cpu_millicores: reservedCpuMillicores },
          })
          .where("id", "=", taskId)
          .where("desired", "=", "running")
          .execute();
        await notify(tx, taskTopic);
      }),

    fail: (of, reason) =>
      locked(
        of,
        async (tx, { id, status }) =>
          // What a restore or a move does with it is theirs to tell.
          !(await holdsBranch(tx, id)) && (await moveBranch(tx, id, { from: status, to: "error", reason })),
      ),

    beginDrop: (projectId) => db.transaction().execute((tx) => dropBranches(tx, [projectId])),

    bury: (of, kept) =>
      locked(of, async (tx, branch) => {
        await buryBranch(tx, branch, kept);
        for (const event of ["databaseFailing", "backupFailed"] as const)
          await dropAlert(tx, { projectId: branch.project_id, event, subject: branch.channel });
      }),
  };
}
