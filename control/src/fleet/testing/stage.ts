import { systemClock } from "@svc/runtime/system";
import { sql } from "kysely";
import { testApi } from "../../http/testing.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Deployment, Node } from "../../stores/db/tables.ts";
import { lockWaits } from "../../stores/db/testing.ts";
import { until } from "../../stores/etcd/testing.ts";
import { raiseFence } from "../cluster/fenced.ts";
import { type FleetRows, fleetRows } from "../leading.ts";
import { removeTasks } from "../tasks/change.ts";
import { raiseMemoryFence } from "./fenced.ts";
import { memoryFleetRows } from "./fleet-rows.ts";
import { MemoryTables, type MemoryTask, type Transact } from "./tables.ts";

/** A drain cordons as well. */
const cordoned = ({ drain = "none" }: Partial<Pick<Node, "drain">>) => ({ schedulable: drain === "none" });

/** A task as every store tells of it. */
export interface SeenTask extends Pick<MemoryTask, "desired" | "drainSeconds" | "nodeId" | "refused" | "cause"> {
  isReaped: boolean;
  isServed: boolean;
  isRetiring: boolean;
}

interface NodeValues extends Partial<Pick<Node, "role" | "lifecycle" | "drain" | "schedulable" | "entering">> {
  /** When it last came; never unless given. */
  seenAt?: Date | null;
}

interface TaskValues {
  drainSeconds?: number;
  desired?: MemoryTask["desired"];
  deploymentId?: string;
  replica?: number;
  cause?: string | null;
  isServed?: boolean;
  isRetiring?: boolean;
}

/** What a site's deployment is to have. */
const sized = { replicas: 2, drainSeconds: 30 } as const;

/** Rows of one kind of store, as a test of what they promise sets them up and looks at them. */
export interface Stage extends AsyncDisposable, FleetRows {
  newNode(values?: NodeValues): Promise<string>;
  newDeployment(status: Deployment["status"]): Promise<string>;
  /** A host of a project of its own, whose channel serves a deployment with an image, two containers and half a minute for drains. */
  newSite(values?: { stopped?: boolean }): Promise<{ host: string; projectId: string; deploymentId: string }>;
  /** A container of a deployment that runs, unless another one is given. */
  newTask(values?: TaskValues): Promise<string>;
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
    ...fleetRows(db),
    async newDeployment(status) {
      const deployment = await api.newDeployment(project, { status });
      deployments.set(deployment.id, deployment);
      return deployment.id;
    },
    async newNode({ seenAt, ...values } = {}) {
      const row = { role: "node" as const, name: `machine-${++made}`, labels: "{}", ...cordoned(values), ...values };
      return (
        await db
          .insertInto("node")
          .values({ ...row, last_seen_at: seenAt ?? null })
          .returning("id")
          .executeTakeFirstOrThrow()
      ).id;
    },
    async newSite({ stopped = false } = {}) {
      const own = await api.newProject(await api.newUser());
      const deployment = await api.newDeployment(own, {
        ...{ status: "running", artifact_kind: "image", artifact_repository: "projects/shop" },
        artifact_digest: `sha256:${"0".repeat(64)}`,
        manifest: {
          ...{ version: 2, app: { name: "Shop", type: "ssr", port: 3000, replicas: sized.replicas } },
          drain: { seconds: sized.drainSeconds },
        },
      });
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
    async newTask({ drainSeconds = 0, desired = "running", deploymentId = "", replica = ++made, ...values } = {}) {
      const { id } = await api.newTask(deployments.get(deploymentId) ?? running, { replica, desired });
      const { cause = null, isServed = false, isRetiring = false } = values;
      await db
        .updateTable("task")
        .set({ drain_seconds: drainSeconds, cause })
        .set({ served_at: isServed ? sql<Date>`now()` : null, retiring_at: isRetiring ? sql<Date>`now()` : null })
        .where("id", "=", id)
        .execute();
      return id;
    },
    async taskOf(id) {
      const row = await db.selectFrom("task").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
      const { desired, drain_seconds: drainSeconds, node_id: nodeId, refused, cause } = row;
      const marks = { isServed: row.served_at !== null, isRetiring: row.retiring_at !== null };
      return { desired, drainSeconds, nodeId, refused, cause, isReaped: row.reaped_at !== null, ...marks };
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
    ...memoryFleetRows(transact),
    async newDeployment(status) {
      const id = tables.id("d");
      tables.deployments.set(id, { id, projectId: "p1", status, ...sized });
      return id;
    },
    async newNode({ seenAt = null, ...values } = {}) {
      const id = tables.id("n");
      tables.nodes.set(id, {
        ...{ id, role: "node", lifecycle: "active", schedulable: true, drain: "none", drainGeneration: 0 },
        ...{ drainDeadline: null, quarantinedAt: null, diskFull: false, entering: false },
        ...{ seenAt, createdAt: systemClock.now() },
        ...cordoned(values),
        ...values,
      });
      return id;
    },
    async newSite({ stopped = false } = {}) {
      const [projectId, deploymentId] = [tables.id("p"), tables.id("d")];
      const host = `${projectId}.svc.test`;
      tables.deployments.set(deploymentId, { id: deploymentId, projectId, status: "running", ...sized });
      tables.sites.set(host, { host, projectId, deploymentId, stopped });
      return { host, projectId, deploymentId };
    },
    async newTask({ deploymentId = "d1", replica = ++made, cause = null, ...values } = {}) {
      const projectId = tables.deployments.get(deploymentId)?.projectId ?? "p1";
      const now = systemClock.now();
      const task = tables.insertContainer({ projectId, deploymentId, replica, cause, createdAt: now });
      const { drainSeconds = 0, desired = "running", isServed = false, isRetiring = false } = values;
      Object.assign(task, { drainSeconds, desired });
      Object.assign(task, { servedAt: isServed ? now : null, retiringAt: isRetiring ? now : null });
      return task.id;
    },
    async taskOf(id) {
      const task = tables.tasks.get(id);
      if (task === undefined) throw new Error(`there is no task ${id}`);
      const { desired, drainSeconds, nodeId, refused, cause, reapedAt, servedAt, retiringAt } = task;
      const marks = { isServed: servedAt !== null, isRetiring: retiringAt !== null };
      return { desired, drainSeconds, nodeId, refused, cause, isReaped: reapedAt !== null, ...marks };
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
