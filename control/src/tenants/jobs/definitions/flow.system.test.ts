import { randomUUID } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { type Channel, manifestSchema } from "@svc/proto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type TestApi, type TestUser, testApi } from "../../../http/testing.ts";
import type { Project } from "../../../stores/db/tables.ts";
import { type EtcdServer, startEtcd, testClient, until } from "../../../stores/etcd/testing.ts";
import { acceptDeployment } from "../../deployments/testing/accept.ts";
import { type Replica, startReplica } from "../../deployments/testing/replica.ts";
import { createRandom, startVirtualFleet } from "../../deployments/testing/virtual-fleet.ts";

// What becomes of scheduled jobs while a project is deployed, stopped, suspended and taken down, and control is killed meanwhile.

const stack = new AsyncDisposableStack();
let etcd: EtcdServer;
let api: TestApi;
let user: TestUser;
let admin: TestUser;
let project: Project;
let replica: Replica;
let production: string;
let preview: string;
beforeAll(async () => {
  [etcd, api] = await Promise.all([startEtcd(), testApi()]);
  const client = stack.use(testClient(etcd.endpoint));
  const virtual = stack.use(await startVirtualFleet({ db: api.db, etcd: client, random: createRandom(3), nodes: 2 }));
  virtual.calm();
  user = await api.newUser({ plan: { max_deploys_per_hour: 1_000, max_scheduled_jobs: 5 } });
  admin = await api.newUser({ admin: true });
  project = await api.newProject(user);
  replica = await newReplica();
});
afterAll(async () => {
  await replica?.[Symbol.asyncDispose]();
  await stack.disposeAsync();
  await api?.[Symbol.asyncDispose]();
  await etcd?.[Symbol.asyncDispose]();
});

const newReplica = (): Promise<Replica> =>
  startReplica({
    databaseUrl: api.context.config.databaseUrl,
    etcdEndpoint: etcd.endpoint,
    content: api.context.config.content,
    registry: { getManifest: async () => ({ manifest: {}, digest: "", sizeBytes: 0 }) as never },
  });

async function deploy(names: string[], channel: Channel, prNumber: number | null = null): Promise<string> {
  const id = randomUUID();
  const caller = await api.callerOf(user);
  const { clock, config, secrets } = api.context;
  const jobs = names.map((name) => ({ name, schedule: "0 0 1 1 *", command: "node job.js" }));
  const app = { name: "Shop", type: "ssr" };
  await api.db.transaction().execute((tx) =>
    acceptDeployment(tx, { clock, config, secrets }, caller, project.id, {
      id,
      manifest: manifestSchema.parse({ version: 2, app, start: { command: "node server.js" }, jobs }),
      metadata: {},
      admission: { channel, prNumber },
      source: { repository: `svc/${project.id}/source`, digest: `sha256:${"0".repeat(64)}`, sizeBytes: 1 },
      fileEnv: {},
      warnings: [],
    }),
  );
  return id;
}
const isIn = (id: string, status: string) =>
  until(`deployment ${id} to be ${status}`, async () => {
    const row = await api.db.selectFrom("deployment").select("status").where("id", "=", id).executeTakeFirstOrThrow();
    return row.status === status;
  });

/** Every job that is not retired, and whether it is scheduled or why it is not. */
async function jobs(): Promise<Record<string, string>> {
  const rows = await api.db.selectFrom("job").selectAll().where("retired_at", "is", null).orderBy("name").execute();
  return Object.fromEntries(
    rows.map(({ channel, pr_number, name, pause_reason, next_fire_at }) => [
      `${channel}${pr_number === 0 ? "" : pr_number}/${name}`,
      pause_reason ?? (next_fire_at === null ? "off" : "on"),
    ]),
  );
}
const areJobs = (wanted: Record<string, string>) =>
  until(`jobs to be ${JSON.stringify(wanted)}`, async () => isDeepStrictEqual(await jobs(), wanted));
const post = (path: string, by: TestUser) => api.call("POST", path, { session: by.session });

test("jobs come with the traffic, and go with it", async () => {
  const first = await deploy(["a", "b"], "production");
  await isIn(first, "running");
  expect(await jobs()).toEqual({ "production/a": "on", "production/b": "on" });

  // Killed anywhere in the next one, control has the jobs of what visitors get.
  production = await deploy(["b", "c"], "production");
  for (const calls of [60, 110, 160, 210]) {
    replica.crashAfter(calls);
    await Promise.race([replica.crashed, isIn(production, "running")]);
    for (const { served, of } of await servedAndJobs()) expect(of).toBe(served);
    await replica[Symbol.asyncDispose]();
    replica = await newReplica();
  }
  await isIn(production, "running");
  expect(await jobs()).toEqual({ "production/b": "on", "production/c": "on" });
});

/** What production serves beside each job that is not retired, and whose the job is, in one look. */
const servedAndJobs = () =>
  api.db
    .selectFrom("job")
    .innerJoin("channel_state", (join) =>
      join
        .onRef("channel_state.project_id", "=", "job.project_id")
        .onRef("channel_state.channel", "=", "job.channel")
        .onRef("channel_state.pr_number", "=", "job.pr_number"),
    )
    .select(["channel_state.deployment_id as served", "job.deployment_id as of"])
    .where("job.retired_at", "is", null)
    .execute();

test("a stop and a suspension pause them until they are over", async () => {
  preview = await deploy(["x"], "preview", 7);
  await isIn(preview, "running");
  await isIn(await deploy(["y"], "dev"), "running");
  await areJobs({ "production/b": "on", "production/c": "on", "preview7/x": "on", "dev/y": "on" });

  expect((await post(`/projects/${project.id}/stop`, user)).status).toBe(202);
  await areJobs({ "production/b": "stopped", "production/c": "stopped", "preview7/x": "on", "dev/y": "on" });
  await isIn(production, "stopped");
  expect((await post(`/admin/projects/${project.id}/suspend`, admin)).status).toBeLessThan(300);
  expect(new Set(Object.values(await jobs()))).toEqual(new Set(["suspended"]));
  expect((await post(`/admin/projects/${project.id}/resume`, admin)).status).toBeLessThan(300);
  await areJobs({ "production/b": "stopped", "production/c": "stopped", "preview7/x": "on", "dev/y": "on" });
  expect((await post(`/projects/${project.id}/start`, user)).status).toBe(202);
  await areJobs({ "production/b": "on", "production/c": "on", "preview7/x": "on", "dev/y": "on" });
  await isIn(production, "running");
});

test("a plan with fewer reaches them, production last", async () => {
  const setMax = (max_scheduled_jobs: number) =>
    api.db
      .updateTable("plan")
      .set({ max_scheduled_jobs })
      .where("id", "in", api.db.selectFrom("account").select("plan_id").where("user_id", "=", user.id) as never)
      .execute();
  await setMax(1);
  await areJobs({ "production/b": "on", "production/c": "plan", "preview7/x": "plan", "dev/y": "plan" });
  await setMax(5);
  await areJobs({ "production/b": "on", "production/c": "on", "preview7/x": "on", "dev/y": "on" });
});

test("a preview that is taken down has none any more", async () => {
  const answer = await api.call("DELETE", `/deployments/${preview}`, { session: user.session });
  expect(answer.status, answer.text).toBeLessThan(300);
  await areJobs({ "production/b": "on", "production/c": "on", "dev/y": "on" });
});
