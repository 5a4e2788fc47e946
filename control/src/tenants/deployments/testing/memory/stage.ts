import { systemClock } from "@svc/runtime/system";
import { sql } from "kysely";
import { setChannelState } from "../../../../fleet/routes/store.ts";
import { retireKey } from "../../../../fleet/tasks/deployment.ts";
import type { MemoryTask, Transact } from "../../../../fleet/testing/tables.ts";
import { testApi } from "../../../../http/testing.ts";
import type { Deployment, Project } from "../../../../stores/db/tables.ts";
import { enqueue, hasOpenWork } from "../../../../stores/work/queue.ts";
import { requestLifecycle } from "../../lifecycle/request.ts";
import { type LifecyclePayload, type LifecycleRows, lifecycleRows } from "../../lifecycle/rows.ts";
import { type RetireRows, retireRows } from "../../retire/rows.ts";
import { type DeployRows, deployRows } from "../../rows.ts";
import { memoryDeployRows } from "./deploy-rows.ts";
import { memoryLifecycleRows } from "./lifecycle-rows.ts";
import { requestLifecycle as memoryRequest } from "./request.ts";
import { memoryRetireRows } from "./retire-rows.ts";
import { DeploymentTables, healthTimeoutSeconds } from "./tables.ts";

type Status = Deployment["status"];

/** A task as every store tells of it. */
export interface SeenTask extends Pick<MemoryTask, "id" | "replica" | "desired" | "drainSeconds"> {}

export interface NewDeployment {
  status: Status;
  replicas?: number;
  drainSeconds?: number;
  isHeld?: boolean;
  /** It has a release command that nobody was offered yet. */
  hasRelease?: boolean;
}

/** Rows of one kind of store, as a test of what they promise sets them up and looks at them. */
export interface Stage extends AsyncDisposable {
  lifecycle: LifecycleRows;
  retire: RetireRows;
  deploys: DeployRows;
  /** A project with a host, of which production leads to nothing yet. */
  newProject(): Promise<{ projectId: string; host: string }>;
  /** A deployment with an image to its production, later than those before. */
  newDeployment(projectId: string, values: NewDeployment): Promise<string>;
  /** What production leads to. */
  point(projectId: string, state: { deploymentId: string | null; stopped: boolean }): Promise<void>;
  channelOf(projectId: string): Promise<{ deploymentId: string | null; stopped: boolean } | null>;
  newTask(
    deploymentId: string,
    values?: { replica?: number; desired?: MemoryTask["desired"]; drainSeconds?: number },
  ): Promise<string>;
  /** In the order in which they were made. */
  tasksOf(deploymentId: string): Promise<SeenTask[]>;
  newEdge(values?: { schedulable?: boolean }): Promise<string>;
  suspend(projectId: string): Promise<void>;
  /** Somebody has production stopped or started. @throws Refused */
  request(projectId: string, action: LifecyclePayload["action"]): Promise<{ deploymentId: string; workId: number }>;
  isHeld(deploymentId: string): Promise<boolean>;
  /** Somebody asks for its end. */
  cancel(deploymentId: string): Promise<void>;
  /** No node takes the task. */
  refuse(taskId: string): Promise<void>;
  /** Its status, what it says of itself, and the phases of its timeline. */
  look(deploymentId: string): Promise<{ status: Status; error: string | null; lines: string[] }>;
  releaseOf(deploymentId: string): Promise<Deployment["release_status"]>;
  enqueue(kind: string, key: string, payload: unknown): Promise<number>;
  isRetiring(deploymentId: string): Promise<boolean>;
}

const image = {
  ...{ artifact_kind: "image" as const, artifact_repository: "svc/shop/app" },
  artifact_digest: `sha256:${"0".repeat(64)}`,
};

export async function postgresStage(): Promise<Stage> {
  const stack = new AsyncDisposableStack();
  const api = stack.use(await testApi());
  const { db } = api;
  const projects = new Map<string, Project>();
  const deployments = new Map<string, Deployment>();
  const production = (projectId: string) =>
    ({ project_id: projectId, channel: "production", pr_number: null }) as const;
  const must = <T>(found: T | undefined): T => {
    if (found === undefined) throw new Error("there is none");
    return found;
  };
  let edges = 0;
  return {
    ...{ lifecycle: lifecycleRows(db), retire: retireRows(db), deploys: deployRows(db) },
    async newProject() {
      const project = await api.newProject(await api.newUser());
      projects.set(project.id, project);
      return { projectId: project.id, host: `${project.slug}.svc.localhost` };
    },
    async newDeployment(projectId, { status, replicas = 1, drainSeconds = 30, isHeld = false, hasRelease = false }) {
      const health = { path: "/", timeoutSeconds: healthTimeoutSeconds };
      const drain = { seconds: drainSeconds };
      const manifest = {
        version: 2,
        app: { name: "Shop", type: "ssr", replicas },
        ...{ health, drain },
        ...(hasRelease && { release: { command: "node migrate.js", timeoutSeconds: 30 } }),
      } as unknown as Deployment["manifest"];
      const held_at = isHeld ? systemClock.now() : null;
      const deployment = await api.newDeployment(must(projects.get(projectId)), {
        status,
        manifest,
        held_at,
        ...(hasRelease && { release_status: "pending" as const }),
        ...image,
      });
      deployments.set(deployment.id, deployment);
      return deployment.id;
    },
    point: (projectId, state) => setChannelState(db, production(projectId), state),
    async channelOf(projectId) {
      const found = await db
        .selectFrom("channel_state")
        .select(["deployment_id as deploymentId", "stopped"])
        .where("project_id", "=", projectId)
        .executeTakeFirst();
      return found ?? null;
    },
    async newTask(deploymentId, { replica = 0, desired = "running", drainSeconds: drain_seconds = 0 } = {}) {
      const { id } = await api.newTask(must(deployments.get(deploymentId)), { replica, desired });
      await db.updateTable("task").set({ drain_seconds }).where("id", "=", id).execute();
      return id;
    },
    tasksOf: (deploymentId) =>
      db
        .selectFrom("task")
        .select(["id", "replica", "desired", "drain_seconds as drainSeconds"])
        .where("owner_id", "=", deploymentId)
        .orderBy("epoch")
        .execute(),
    async newEdge({ schedulable = true } = {}) {
      const row = { role: "edge" as const, name: `edge-${++edges}`, labels: "{}", schedulable, entering: false };
      const { id } = await db
        .insertInto("node")
        .values({ ...row, last_seen_at: sql<Date>`now()` })
        .returning("id")
        .executeTakeFirstOrThrow();
      return id;
    },
    async suspend(projectId) {
      await db.updateTable("project").set({ suspended_at: sql<Date>`now()` }).where("id", "=", projectId).execute();
    },
    request: (projectId, action) =>
      db.transaction().execute(async (tx) => {
        await sql`select from project where id = ${projectId} for update`.execute(tx);
        return requestLifecycle(tx, projectId, action);
      }),
    async isHeld(id) {
      const row = db.selectFrom("deployment").select("held_at").where("id", "=", id);
      return (await row.executeTakeFirstOrThrow()).held_at !== null;
    },
    async cancel(id) {
      await db.updateTable("deployment").set({ cancel_requested_at: sql<Date>`now()` }).where("id", "=", id).execute();
    },
    async refuse(id) {
      await db
        .updateTable("task")
        .set({ refused: JSON.stringify({ cordoned: 1 }) })
        .where("id", "=", id)
        .execute();
    },
    async releaseOf(id) {
      const row = db.selectFrom("deployment").select("release_status").where("id", "=", id);
      return (await row.executeTakeFirstOrThrow()).release_status;
    },
    async look(id) {
      const row = await db.selectFrom("deployment").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
      const lines = await db
        .selectFrom("deployment_event")
        .select("phase")
        .where("deployment_id", "=", id)
        .orderBy("id")
        .execute();
      return { status: row.status, error: row.error, lines: lines.map(({ phase }) => phase) };
    },
    enqueue: (kind, key, payload) => enqueue(db, { kind, key, payload }),
    isRetiring: (deploymentId) => hasOpenWork(db, retireKey(deploymentId)),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

export async function memoryStage(): Promise<Stage> {
  const tables = new DeploymentTables();
  const tx = () => ({ tables, now: systemClock.now(), notify() {} });
  const transact: Transact<DeploymentTables> = async (work) => work(tx());
  let number = 0;
  return {
    ...{ lifecycle: memoryLifecycleRows(transact), retire: memoryRetireRows(transact) },
    deploys: memoryDeployRows(transact),
    async newProject() {
      const projectId = tables.id("p");
      const host = `${projectId}.svc.test`;
      tables.sites.set(host, { host, projectId, deploymentId: null, stopped: false, changedAt: systemClock.now() });
      return { projectId, host };
    },
    async newDeployment(projectId, { status, replicas = 1, drainSeconds = 30, isHeld = false, hasRelease = false }) {
      const id = tables.id("d");
      const now = systemClock.now();
      tables.deployments.set(id, {
        ...{ id, projectId, status, replicas, number: ++number, memoryMb: 128, statusSince: now },
        ...{ drainSeconds, heldAt: isHeld ? now : null, error: null, cancelRequested: false, hasRelease },
        ...{ releaseStatus: hasRelease ? "pending" : "not_configured", releaseAttempt: 0, releaseNodeId: null },
      });
      return id;
    },
    async point(projectId, state) {
      Object.assign(tables.siteOf(projectId) ?? {}, state, { changedAt: systemClock.now() });
    },
    async channelOf(projectId) {
      const site = tables.siteOf(projectId);
      return site && { deploymentId: site.deploymentId, stopped: site.stopped };
    },
    async newTask(deploymentId, { replica = 0, desired = "running", drainSeconds = 0 } = {}) {
      const projectId = tables.deployments.get(deploymentId)?.projectId ?? "";
      const createdAt = systemClock.now();
      const task = tables.insertContainer({ projectId, deploymentId, replica, cause: null, createdAt });
      Object.assign(task, { desired, drainSeconds });
      return task.id;
    },
    async tasksOf(deploymentId) {
      return tables
        .tasksOf(deploymentId)
        .map(({ id, replica, desired, drainSeconds }) => ({ id, replica, desired, drainSeconds }));
    },
    async newEdge({ schedulable = true } = {}) {
      const id = tables.id("e");
      tables.nodes.set(id, {
        ...{ id, role: "edge", lifecycle: "active", schedulable, drain: "none", drainGeneration: 0 },
        ...{ drainDeadline: null, quarantinedAt: null, diskFull: false, entering: false },
        ...{ createdAt: systemClock.now(), seenAt: systemClock.now() },
      });
      return id;
    },
    async suspend(projectId) {
      tables.suspended.add(projectId);
    },
    request: async (projectId, action) => memoryRequest(tx(), projectId, action),
    isHeld: async (id) => (tables.deployments.get(id)?.heldAt ?? null) !== null,
    async cancel(id) {
      Object.assign(tables.deployments.get(id) ?? {}, { cancelRequested: true });
    },
    async refuse(id) {
      Object.assign(tables.tasks.get(id) ?? {}, { refused: { cordoned: 1 } });
    },
    releaseOf: async (id) => tables.deployments.get(id)?.releaseStatus ?? "not_configured",
    async look(id) {
      const row = tables.deployments.get(id);
      if (row === undefined) throw new Error(`there is no deployment ${id}`);
      const lines = tables.lines.filter(({ of }) => of === id).map(({ what }) => what);
      return { status: row.status, error: row.error, lines };
    },
    enqueue: async (kind, key, payload) => tables.work.add(tx(), { kind, key, payload }),
    isRetiring: async (deploymentId) => tables.work.hasOpen(retireKey(deploymentId)),
    [Symbol.asyncDispose]: async () => {},
  };
}
