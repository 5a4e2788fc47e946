import { randomUUID } from "node:crypto";
import { manifestSchema } from "@svc/proto";
import { type TestApi, type TestUser, testApi } from "../../../http/testing.ts";
import type { Deployment, Job, JobRun, Project, Run } from "../../../stores/db/tables.ts";
import type { Etcd } from "../../../stores/etcd/index.ts";
import { startEtcd, testClient } from "../../../stores/etcd/testing.ts";
import { type Replica, startReplica } from "../../deployments/testing/replica.ts";
import { createRandom, startVirtualFleet, type VirtualFleet } from "../../deployments/testing/virtual-fleet.ts";
import { beginRun } from "../runs/begin.ts";
import { newJob } from "./job.ts";

/** A cluster with nodes that run jobs, on real stores, and one project with a job. */
export interface JobWorld extends AsyncDisposable {
  api: TestApi;
  etcd: Etcd;
  nodes: VirtualFleet;
  user: TestUser;
  project: Project;
  /** Another control replica that may lead. */
  replica(): Promise<Replica>;
  /** What production serves, with jobs of these names. */
  serve(names: readonly string[]): Promise<Deployment>;
  job(values?: Partial<Job>): Promise<Job>;
  begin(job: Job, trigger?: JobRun["trigger"]): Promise<JobRun>;
  run(id: string): Promise<JobRun>;
  runs(job: Job): Promise<JobRun[]>;
  attempts(runId: string): Promise<Run[]>;
}

export async function jobWorld({ nodes: count = 2, leads = true } = {}): Promise<JobWorld> {
  await using stack = new AsyncDisposableStack();
  const [server, api] = await Promise.all([startEtcd(), testApi()]);
  stack.use(server);
  stack.use(api);
  const { db } = api;
  const etcd = stack.use(testClient(server.endpoint));
  const nodes = stack.use(await startVirtualFleet({ db, etcd, random: createRandom(1), nodes: count }));
  nodes.calm();
  const { content } = api.context.config;
  let owner: AsyncDisposableStack = stack;
  const replica = async () =>
    owner.use(
      await startReplica({
        ...{ databaseUrl: api.context.config.databaseUrl, etcdEndpoint: server.endpoint, content },
        registry: { getManifest: () => Promise.reject(new Error("no registry")) },
      }),
    );
  if (leads) await replica();
  const user = await api.newUser();
  const project = await api.newProject(user);
  const run = (id: string) => db.selectFrom("job_run").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
  const owned = stack.move();
  owner = owned;
  return {
    ...{ api, etcd, nodes, user, project, replica, run },
    async serve(names) {
      const jobs = names.map((name) => ({ name, schedule: "0 3 * * *", command: `node ${name}.js` }));
      const manifest = manifestSchema.parse({ version: 2, app: { name: "Shop", type: "ssr" }, jobs });
      const deployment = await api.newDeployment(project, {
        ...{ manifest: manifest as never, status: "running", artifact_kind: "image", artifact_size: 1 },
        artifact_repository: `svc/${project.id}/app`,
        artifact_digest: `sha256:${randomUUID().replaceAll("-", "").padEnd(64, "0")}`,
        ...{ artifact_os: "linux", artifact_architecture: "amd64" },
      });
      const state = { project_id: project.id, channel: "production" as const, deployment_id: deployment.id };
      await db
        .insertInto("channel_state")
        .values({ ...state, stopped: false })
        .onConflict((conflict) =>
          conflict.columns(["project_id", "channel", "pr_number"]).doUpdateSet({ deployment_id: deployment.id }),
        )
        .execute();
      return deployment;
    },
    job: (values = {}) => newJob(db, { project_id: project.id, name: "report", ...values }),
    begin: async (job, trigger = "manual") => {
      const begun = await db.transaction().execute((tx) =>
        beginRun(tx, job, {
          trigger,
          fireAt: trigger === "manual" ? null : new Date(),
          requestedBy: trigger === "manual" ? { userId: user.id, tokenId: null } : null,
        }),
      );
      if (begun === null) throw new Error("there was a run of that instant");
      return begun;
    },
    runs: (job) => db.selectFrom("job_run").selectAll().where("job_id", "=", job.id).orderBy("number").execute(),
    attempts: (runId) => db.selectFrom("run").selectAll().where("owner_id", "=", runId).orderBy("number").execute(),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
