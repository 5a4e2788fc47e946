import { systemClock } from "@svc/runtime/system";
import { sql } from "kysely";
import { raiseFence } from "../../../../fleet/cluster/fenced.ts";
import { raiseMemoryFence } from "../../../../fleet/testing/fenced.ts";
import type { Transact } from "../../../../fleet/testing/tables.ts";
import { testApi } from "../../../../http/testing.ts";
import type { Deployment, Job, JobRun, Project, Run } from "../../../../stores/db/tables.ts";
import { pointChannel } from "../../../deployments/channel.ts";
import { pointChannel as pointMemory } from "../../../deployments/testing/memory/channel.ts";
import { DeploymentTables, type Tx } from "../../../deployments/testing/memory/tables.ts";
import { requestScheduled } from "../../definitions/change.ts";
import type { Definition } from "../../definitions/rules.ts";
import { type JobRows, jobRows } from "../../leading.ts";
import { requestCancel, requestRun } from "../../runs/request.ts";
import { requestScheduled as memoryScheduled } from "./change.ts";
import { memoryJobRows } from "./job-rows.ts";
import { requestCancel as memoryCancel, requestRun as memoryRun } from "./request.ts";

/** Rows of one kind of store, as a test of what they promise sets them up and looks at them. */
export interface Stage extends AsyncDisposable {
  rows: JobRows;
  /** From now on that one leads. */
  lead(epoch: bigint): Promise<void>;
  /** A project of which production leads to nothing yet, and whose plan has room for so many jobs. */
  newProject(maxScheduledJobs?: number): Promise<string>;
  /** A deployment with an image that runs, whose manifest has these jobs. */
  newDeployment(projectId: string, jobs: readonly Definition[]): Promise<string>;
  /** What production leads to. */
  point(projectId: string, state: { deploymentId: string | null; stopped: boolean }): Promise<void>;
  suspend(projectId: string): Promise<void>;
  /** By name, those that are retired included. */
  jobsOf(projectId: string): Promise<Job[]>;
  /** When a job is to fire next, and in another zone if one is given. */
  dueAt(jobId: string, at: Date, timezone?: string): Promise<void>;
  /** Somebody runs a job by hand. @throws Refused */
  request(projectId: string, jobId: string): Promise<JobRun>;
  /** Somebody wants the end of a run. @throws Refused */
  cancel(projectId: string, runId: string): Promise<"end" | "ask" | null>;
  /** Somebody has a job scheduled or not; false: there is none. */
  schedule(projectId: string, jobId: string, enabled: boolean): Promise<boolean>;
  /** In the order in which they were made. */
  runsOf(jobId: string): Promise<JobRun[]>;
  attemptsOf(runId: string): Promise<Run[]>;
}

const requestedBy = null;

export async function postgresStage(): Promise<Stage> {
  const stack = new AsyncDisposableStack();
  const api = stack.use(await testApi());
  const { db } = api;
  const projects = new Map<string, Project>();
  const production = (projectId: string) =>
    ({ project_id: projectId, channel: "production", pr_number: null }) as const;
  const held = (projectId: string) =>
    db.selectFrom("project").selectAll().where("id", "=", projectId).executeTakeFirstOrThrow();
  return {
    rows: jobRows(db),
    lead: (epoch) => raiseFence(db, epoch),
    async newProject(max_scheduled_jobs = 100) {
      const project = await api.newProject(await api.newUser({ plan: { max_scheduled_jobs } }));
      projects.set(project.id, project);
      return project.id;
    },
    async newDeployment(projectId, jobs) {
      const commands = jobs.map((job) => ({ ...job, command: "node job.js" }));
      const manifest = { version: 2, app: { name: "Shop", type: "ssr" }, jobs: commands } as unknown;
      const { id } = await api.newDeployment(projects.get(projectId) as Project, {
        ...{ status: "running", manifest: manifest as Deployment["manifest"], artifact_kind: "image" },
        ...{ artifact_repository: "svc/shop/app", artifact_digest: `sha256:${"0".repeat(64)}` },
      });
      return id;
    },
    point: (projectId, state) => db.transaction().execute((tx) => pointChannel(tx, production(projectId), state)),
    async suspend(projectId) {
      await db.updateTable("project").set({ suspended_at: sql<Date>`now()` }).where("id", "=", projectId).execute();
    },
    jobsOf: (projectId) =>
      db.selectFrom("job").selectAll().where("project_id", "=", projectId).orderBy("name").execute(),
    async dueAt(jobId, next_fire_at, timezone) {
      const change = { next_fire_at, ...(timezone !== undefined && { timezone }) };
      await db.updateTable("job").set(change).where("id", "=", jobId).execute();
    },
    async request(projectId, jobId) {
      const project = await held(projectId);
      return (await db.transaction().execute((tx) => requestRun(tx, project, jobId, requestedBy))).run;
    },
    cancel: (projectId, runId) => db.transaction().execute((tx) => requestCancel(tx, projectId, runId)),
    schedule: async (projectId, jobId, enabled) =>
      (await db.transaction().execute((tx) => requestScheduled(tx, projectId, jobId, enabled))) !== null,
    runsOf: (jobId) => db.selectFrom("job_run").selectAll().where("job_id", "=", jobId).orderBy("number").execute(),
    attemptsOf: (runId) => db.selectFrom("run").selectAll().where("owner_id", "=", runId).orderBy("number").execute(),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

export async function memoryStage(): Promise<Stage> {
  const tables = new DeploymentTables();
  const tx = (): Tx => ({ tables, now: systemClock.now(), notify() {} });
  const transact: Transact<DeploymentTables> = async (work) => work(tx());
  let number = 0;
  return {
    rows: memoryJobRows(transact),
    lead: (epoch) => raiseMemoryFence(transact, epoch),
    async newProject(maxScheduledJobs = 100) {
      tables.jobs.maxScheduledJobs = maxScheduledJobs;
      const projectId = tables.id("p");
      const host = `${projectId}.svc.test`;
      tables.sites.set(host, { host, projectId, deploymentId: null, stopped: false, changedAt: systemClock.now() });
      return projectId;
    },
    async newDeployment(projectId, jobs) {
      const id = tables.id("d");
      tables.deployments.set(id, {
        ...{ id, projectId, status: "running", replicas: 1, number: ++number, memoryMb: 128 },
        ...{ statusSince: systemClock.now(), drainSeconds: 0, heldAt: null, error: null, cancelRequested: false },
        ...{ hasRelease: false, releaseStatus: "not_configured", releaseAttempt: 0, releaseNodeId: null },
      });
      tables.jobs.definitions.set(id, jobs);
      return id;
    },
    point: async (projectId, state) => pointMemory(tx(), projectId, state),
    async suspend(projectId) {
      tables.suspended.add(projectId);
    },
    async jobsOf(projectId) {
      const own = [...tables.jobs.jobs.values()].filter(({ project_id }) => project_id === projectId);
      return own.sort((a, b) => (a.name < b.name ? -1 : 1)).map((job) => ({ ...job }));
    },
    async dueAt(jobId, next_fire_at, timezone) {
      const change = { next_fire_at, ...(timezone !== undefined && { timezone }) };
      Object.assign(tables.jobs.jobs.get(jobId) ?? {}, change);
    },
    request: async (projectId, jobId) => memoryRun(tx(), projectId, jobId, requestedBy).run,
    cancel: async (projectId, runId) => memoryCancel(tx(), projectId, runId),
    schedule: async (projectId, jobId, enabled) => memoryScheduled(tx(), projectId, jobId, enabled) !== null,
    async runsOf(jobId) {
      return [...tables.jobs.runs.values()].filter(({ job_id }) => job_id === jobId).map((run) => ({ ...run }));
    },
    attemptsOf: async (runId) => (tables.jobs.attemptsOf.get(runId) ?? []).map((row) => ({ ...row })),
    [Symbol.asyncDispose]: async () => {},
  };
}
