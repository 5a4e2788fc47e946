import { systemClock } from "@svc/runtime/system";
import { sql } from "kysely";
import { testApi } from "../../http/testing.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Deployment, Node } from "../../stores/db/tables.ts";
import { lockWaits } from "../../stores/db/testing.ts";
import { until } from "../../stores/etcd/testing.ts";
import { raiseFence } from "../cluster/fenced.ts";
import { type SchedulerRows, schedulerRows } from "../scheduler/store.ts";
import { removeTasks } from "../tasks/change.ts";
import { raiseMemoryFence } from "./fenced.ts";
import { memorySchedulerRows } from "./scheduler-rows.ts";
import { MemoryTables, type MemoryTask, type Transact } from "./tables.ts";

/** A task as every store tells of it. */
export interface SeenTask extends Pick<MemoryTask, "desired" | "drainSeconds" | "nodeId" | "refused"> {
  isReaped: boolean;
}

/** Rows of one kind of store, as a test of what they promise sets them up and looks at them. */
export interface Stage extends AsyncDisposable {
  scheduler: SchedulerRows;
  newNode(values?: Partial<Pick<Node, "role" | "lifecycle" | "drain" | "schedulable">>): Promise<string>;
  /** A container of a deployment of its own, unless another one is given. */
  newTask(values?: { drainSeconds?: number; desired?: MemoryTask["desired"] }): Promise<string>;
  taskOf(id: string): Promise<SeenTask>;
  /** As whoever replaces or stops does. */
  remove(ids: readonly string[], drainSeconds: number): Promise<void>;
  raiseFence(epoch: bigint): Promise<void>;
  /**
   * Begins `work` while somebody has the task's row in a transaction that asks for its removal, and who is done when `work`
   * waits for it; where nobody can wait, they follow one another.
   */
  whileRemoved(taskId: string, work: () => Promise<void>): Promise<void>;
}

export async function postgresStage(): Promise<Stage> {
  const stack = new AsyncDisposableStack();
  const api = stack.use(await testApi());
  const { db } = api;
  const deployment: Deployment = await api.newDeployment(await api.newProject(await api.newUser()), {
    status: "running",
  });
  let made = 0;
  return {
    scheduler: schedulerRows(db),
    async newNode(values = {}) {
      const row = { role: "node" as const, name: `machine-${++made}`, labels: "{}", ...values };
      return (await db.insertInto("node").values(row).returning("id").executeTakeFirstOrThrow()).id;
    },
    async newTask({ drainSeconds = 0, desired = "running" } = {}) {
      const { id } = await api.newTask(deployment, { replica: ++made, desired });
      await db.updateTable("task").set({ drain_seconds: drainSeconds }).where("id", "=", id).execute();
      return id;
    },
    async taskOf(id) {
      const row = await db.selectFrom("task").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
      const { desired, drain_seconds: drainSeconds, node_id: nodeId, refused } = row;
      return { desired, drainSeconds, nodeId, refused, isReaped: row.reaped_at !== null };
    },
    remove: (ids, drainSeconds) => removeTasks(db, ids, { drainSeconds }),
    raiseFence: (epoch) => raiseFence(db, epoch),
    async whileRemoved(taskId, work) {
      let running: Promise<void> | undefined;
      await db.transaction().execute(async (tx: Db) => {
        await sql`select id from task where id = ${taskId} for update`.execute(tx);
        running = work();
        // Looked at below.
        running.catch(() => {});
        await until("somebody to wait", async () => (await lockWaits(db)) > 0);
        await removeTasks(tx, [taskId]);
      });
      await running;
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

export async function memoryStage(): Promise<Stage> {
  const tables = new MemoryTables();
  const transact: Transact = async (work) => work({ tables, now: systemClock.now(), notify: () => {} });
  let made = 0;
  return {
    scheduler: memorySchedulerRows(transact),
    async newNode(values = {}) {
      const id = tables.id("n");
      tables.nodes.set(id, {
        ...{ id, role: "node", lifecycle: "active", schedulable: true, drain: "none", drainGeneration: 0 },
        ...{ drainDeadline: null, quarantinedAt: null, diskFull: false, seenAt: null },
        ...values,
      });
      return id;
    },
    async newTask({ drainSeconds = 0, desired = "running" } = {}) {
      const task = tables.insert({
        ...{ projectId: "p1", kind: "serve", ownerKind: "deployment", ownerId: "d1", channel: "production" },
        ...{ replica: ++made, specHash: "h", cause: null, createdAt: systemClock.now() },
        ...{ memoryMb: 256, cpuMillicores: 500, pidsLimit: 100, storageMb: 512 },
        ...{ reservedMemoryMb: 256, reservedCpuMillicores: 500 },
      });
      Object.assign(task, { drainSeconds, desired });
      return task.id;
    },
    async taskOf(id) {
      const task = tables.tasks.get(id);
      if (task === undefined) throw new Error(`there is no task ${id}`);
      const { desired, drainSeconds, nodeId, refused, reapedAt } = task;
      return { desired, drainSeconds, nodeId, refused, isReaped: reapedAt !== null };
    },
    remove: async (ids, drainSeconds) => tables.removeTasks(ids, drainSeconds),
    raiseFence: (epoch) => raiseMemoryFence(transact, epoch),
    async whileRemoved(taskId, work) {
      tables.removeTasks([taskId]);
      await work();
    },
    [Symbol.asyncDispose]: async () => {},
  };
}
