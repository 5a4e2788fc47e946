import { systemClock } from "@svc/runtime/system";
import { sql } from "kysely";
import { testApi } from "../../http/testing.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Deployment, Node } from "../../stores/db/tables.ts";
import { lockWaits } from "../../stores/db/testing.ts";
import { until } from "../../stores/etcd/testing.ts";
import { raiseFence } from "../cluster/fenced.ts";
import { type DrainRows, drainRows } from "../nodes/drain/store.ts";
import { type LostRows, lostRows } from "../nodes/fence/store.ts";
import { type RouteRows, routeRows } from "../routes/rows.ts";
import { type SchedulerRows, schedulerRows } from "../scheduler/store.ts";
import { removeTasks } from "../tasks/change.ts";
import { memoryDrainRows } from "./drain-rows.ts";
import { raiseMemoryFence } from "./fenced.ts";
import { memoryLostRows } from "./lost-rows.ts";
import { memoryRouteRows } from "./route-rows.ts";
import { memorySchedulerRows } from "./scheduler-rows.ts";
import { MemoryTables, type MemoryTask, type Transact } from "./tables.ts";

/** A drain cordons as well. */
const cordoned = ({ drain = "none" }: Partial<Pick<Node, "drain">>) => ({ schedulable: drain === "none" });

/** A task as every store tells of it. */
export interface SeenTask extends Pick<MemoryTask, "desired" | "drainSeconds" | "nodeId" | "refused"> {
  isReaped: boolean;
}

/** Rows of one kind of store, as a test of what they promise sets them up and looks at them. */
export interface Stage extends AsyncDisposable {
  scheduler: SchedulerRows;
  drains: DrainRows;
  lost: LostRows;
  routes: RouteRows;
  newNode(values?: Partial<Pick<Node, "role" | "lifecycle" | "drain" | "schedulable">>): Promise<string>;
  newDeployment(status: Deployment["status"]): Promise<string>;
  /** A host of a project of its own, whose channel serves a deployment with an image. */
  newSite(values?: { stopped?: boolean }): Promise<{ host: string; projectId: string; deploymentId: string }>;
  /** A container of a deployment that runs, unless another one is given. */
  newTask(values?: { drainSeconds?: number; desired?: MemoryTask["desired"]; deploymentId?: string }): Promise<string>;
  /** The drain of a machine, what its history says, and the phases of a deployment's timeline. */
  drainOf(nodeId: string): Promise<Node["drain"]>;
  linesOf(id: string): Promise<string[]>;
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
  const project = await api.newProject(await api.newUser());
  const running = await api.newDeployment(project, { status: "running" });
  const deployments = new Map<string, Deployment>();
  let made = 0;
  return {
    ...{ scheduler: schedulerRows(db), drains: drainRows(db), lost: lostRows(db), routes: routeRows(db) },
    async newDeployment(status) {
      const deployment = await api.newDeployment(project, { status });
      deployments.set(deployment.id, deployment);
      return deployment.id;
    },
    async newNode(values = {}) {
      const row = { role: "node" as const, name: `machine-${++made}`, labels: "{}", ...cordoned(values), ...values };
      return (await db.insertInto("node").values(row).returning("id").executeTakeFirstOrThrow()).id;
    },
    async newSite({ stopped = false } = {}) {
      const own = await api.newProject(await api.newUser());
      const deployment = await api.newDeployment(own, { status: "running", artifact_kind: "image" });
      deployments.set(deployment.id, deployment);
      // A project has one from the beginning.
      const hosts = db.selectFrom("site_host").select("host").where("project_id", "=", own.id);
      const { host } = await hosts.executeTakeFirstOrThrow();
      const at = { project_id: own.id, channel: "production" as const };
      await db
        .insertInto("channel_state")
        .values({ ...at, pr_number: 0, deployment_id: deployment.id, stopped })
        .execute();
      return { host, projectId: own.id, deploymentId: deployment.id };
    },
    async newTask({ drainSeconds = 0, desired = "running", deploymentId = "" } = {}) {
      const { id } = await api.newTask(deployments.get(deploymentId) ?? running, { replica: ++made, desired });
      await db.updateTable("task").set({ drain_seconds: drainSeconds }).where("id", "=", id).execute();
      return id;
    },
    async taskOf(id) {
      const row = await db.selectFrom("task").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
      const { desired, drain_seconds: drainSeconds, node_id: nodeId, refused } = row;
      return { desired, drainSeconds, nodeId, refused, isReaped: row.reaped_at !== null };
    },
    async drainOf(nodeId) {
      return (await db.selectFrom("node").select("drain").where("id", "=", nodeId).executeTakeFirstOrThrow()).drain;
    },
    async linesOf(id) {
      const [ofNode, ofDeployment] = await Promise.all([
        db.selectFrom("node_event").select("kind as what").where("node_id", "=", id).orderBy("id").execute(),
        db
          .selectFrom("deployment_event")
          .select("phase as what")
          .where("deployment_id", "=", id)
          .orderBy("id")
          .execute(),
      ]);
      return [...ofNode, ...ofDeployment].map(({ what }) => what);
    },
    remove: (ids, drainSeconds) => removeTasks(db, ids, { drainSeconds }),
    raiseFence: (epoch) => raiseFence(db, epoch),
    async whileRemoved(taskId, work) {
      let asked: Promise<void> | undefined;
      await db.transaction().execute(async (tx: Db) => {
        await sql`select id from task where id = ${taskId} for update`.execute(tx);
        asked = work();
        // Looked at below.
        asked.catch(() => {});
        await until("somebody to wait", async () => (await lockWaits(db)) > 0);
        await removeTasks(tx, [taskId]);
      });
      await asked;
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

export async function memoryStage(): Promise<Stage> {
  const tables = new MemoryTables();
  const transact: Transact = async (work) => work({ tables, now: systemClock.now(), notify: () => {} });
  let made = 0;
  return {
    ...{ scheduler: memorySchedulerRows(transact), drains: memoryDrainRows(transact), lost: memoryLostRows(transact) },
    routes: memoryRouteRows(transact),
    async newDeployment(status) {
      const id = tables.id("d");
      tables.deployments.set(id, { id, projectId: "p1", status });
      return id;
    },
    async newNode(values = {}) {
      const id = tables.id("n");
      tables.nodes.set(id, {
        ...{ id, role: "node", lifecycle: "active", schedulable: true, drain: "none", drainGeneration: 0 },
        ...{ drainDeadline: null, quarantinedAt: null, diskFull: false, seenAt: null },
        ...cordoned(values),
        ...values,
      });
      return id;
    },
    async newSite({ stopped = false } = {}) {
      const [projectId, deploymentId] = [tables.id("p"), tables.id("d")];
      const host = `${projectId}.svc.test`;
      tables.deployments.set(deploymentId, { id: deploymentId, projectId, status: "running" });
      tables.sites.set(host, { host, projectId, deploymentId, stopped });
      return { host, projectId, deploymentId };
    },
    async newTask({ drainSeconds = 0, desired = "running", deploymentId = "d1" } = {}) {
      const task = tables.insert({
        ...{
          projectId: tables.deployments.get(deploymentId)?.projectId ?? "p1",
          kind: "serve",
          ownerKind: "deployment",
          ownerId: deploymentId,
          channel: "production",
        },
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
    drainOf: async (nodeId) => tables.nodes.get(nodeId)?.drain ?? "none",
    linesOf: async (id) => tables.lines.filter(({ of }) => of === id).map(({ what }) => what),
    remove: async (ids, drainSeconds) => tables.removeTasks(ids, drainSeconds),
    raiseFence: (epoch) => raiseMemoryFence(transact, epoch),
    async whileRemoved(taskId, work) {
      tables.removeTasks([taskId]);
      await work();
    },
    [Symbol.asyncDispose]: async () => {},
  };
}
