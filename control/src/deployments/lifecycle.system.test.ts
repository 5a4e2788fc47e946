import { randomUUID } from "node:crypto";
import { type Channel, manifestSchema } from "@svc/proto";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Caller } from "../auth/caller.ts";
import { keys } from "../cluster/keys.ts";
import type { Project } from "../db/tables.ts";
import type { Etcd } from "../etcd/index.ts";
import { type EtcdServer, startEtcd, testClient, until } from "../etcd/testing.ts";
import { type TestApi, type TestUser, testApi } from "../http/testing.ts";
import { acceptDeployment } from "./accept.ts";
import { type Replica, startReplica } from "./testing/replica.ts";
import { createRandom, startVirtualFleet, type VirtualFleet } from "./testing/virtual-fleet.ts";

// Stopping and starting a project that runs on more than one channel, while control comes and goes.

const stack = new AsyncDisposableStack();
let etcd: EtcdServer;
let api: TestApi;
let client: Etcd;
let virtual: VirtualFleet;
let user: TestUser;
let project: Project;
beforeAll(async () => {
  [etcd, api] = await Promise.all([startEtcd(), testApi()]);
  client = stack.use(testClient(etcd.endpoint));
  virtual = stack.use(await startVirtualFleet({ db: api.db, etcd: client, random: createRandom(1), nodes: 1 }));
  virtual.calm();
  user = await api.newUser();
  project = await api.newProject(user, { type: "ssr" });
});
afterAll(async () => {
  await stack.disposeAsync();
  await api?.[Symbol.asyncDispose]();
  await etcd?.[Symbol.asyncDispose]();
});

let aheadMs = 0;
const newReplica = (): Promise<Replica> =>
  startReplica({
    now: () => new Date(Date.now() + aheadMs),
    databaseUrl: api.context.config.databaseUrl,
    etcdEndpoint: etcd.endpoint,
    content: api.context.config.content,
    registry: { getManifest: async () => ({ manifest: {}, digest: "", sizeBytes: 0 }) as never },
  });

async function deploy(channel: Channel): Promise<string> {
  const id = randomUUID();
  const caller = {
    userId: user.id,
    emailVerified: true,
    scopes: null,
    projectIds: null,
    tokenId: null,
    kind: "session",
  };
  const manifest = { version: 2, app: { name: "Shop", type: "ssr" }, start: { command: "node server.js" } };
  const { config, secrets } = api.context;
  await api.db.transaction().execute((tx) =>
    acceptDeployment(tx, { config, secrets }, caller as unknown as Caller, project.id, {
      id,
      manifest: manifestSchema.parse(manifest),
      metadata: {},
      admission: { channel, prNumber: null },
      source: { repository: `svc/${project.id}/source`, digest: `sha256:${"0".repeat(64)}`, sizeBytes: 1 },
      fileEnv: {},
    }),
  );
  return id;
}

const post = (action: "stop" | "start") =>
  api.call("POST", `/projects/${project.id}/${action}`, { session: user.session });
const isIn = (id: string, status: string) =>
  until(`deployment ${id} to be ${status}`, async () => {
    const row = await api.db.selectFrom("deployment").select("status").where("id", "=", id).executeTakeFirstOrThrow();
    return row.status === status;
  });
const hostOf = (channel: Channel) => (channel === "production" ? project.slug : `${channel}-${project.slug}`);
/** What visitors of a channel get: the page, or the containers. */
const servedOn = (channel: Channel) => {
  const entry = virtual.fleet.route(`${hostOf(channel)}.svc.localhost`);
  return entry?.page?.page ?? entry?.proxy?.upstreams;
};
const containersOf = (id: string) =>
  virtual.fleet.placements().filter(({ placement }) => placement.deploymentId === id && placement.kind === "serve");

test("only production is stopped and started, also by another control than the one that was asked", async () => {
  const first = await newReplica();
  const dev = await deploy("dev");
  await isIn(dev, "running");
  const production = await deploy("production");
  await isIn(production, "running");
  const upstreams = servedOn("dev");
  expect(upstreams).toHaveLength(1);

  expect((await post("stop")).body.deploymentId).toBe(production);
  await isIn(production, "stopped");
  await until("its containers to be gone", async () => containersOf(production).length === 0);
  expect(servedOn("production")).toBe("PAGE_STOPPED");
  await first[Symbol.asyncDispose]();

  expect((await post("start")).status).toBe(202);
  await using _second = await newReplica();
  await isIn(production, "running");
  expect(servedOn("production")).toHaveLength(1);

  await isIn(dev, "running");
  expect(servedOn("dev")).toEqual(upstreams);
  expect(containersOf(dev).map(({ placement }) => placement.desired)).toEqual(["running"]);
});

test("a site goes down and up again while a deploy of its project is under way", async () => {
  await using _replica = await newReplica();
  const production = await deploy("production");
  await isIn(production, "running");
  await until("its work to be put away", async () => {
    const work = api.db.selectFrom("work_item").select("id").where("key", "=", project.id);
    return (await work.where("state", "in", ["queued", "running"]).execute()).length === 0;
  });
  // As a worker elsewhere holds the project's deploys, with a build that takes a quarter of an hour.
  const { id } = await api.db
    .insertInto("work_item")
    .values({
      ...{ kind: "deploy", key: project.id, payload: JSON.stringify({ deploymentId: randomUUID() }) },
      ...{ state: "running", lease_owner: "elsewhere", lease_until: new Date(Date.now() + 900_000) },
    })
    .returning("id")
    .executeTakeFirstOrThrow();
  await post("stop");
  await isIn(production, "stopped");
  expect(servedOn("production")).toBe("PAGE_STOPPED");
  await until("its containers to be gone", async () => containersOf(production).length === 0);
  await post("start");
  await isIn(production, "running");
  expect(servedOn("production")).toHaveLength(1);
  await api.db.deleteFrom("work_item").where("id", "=", id).execute();
});

test("a site starts elsewhere when the node that was to start it goes", async () => {
  await using replica = await newReplica();
  const production = await deploy("production");
  await isIn(production, "running");
  await post("stop");
  await isIn(production, "stopped");
  await until("its containers to be gone", async () => containersOf(production).length === 0);
  // A node that takes what is placed on it and says nothing.
  const schedulable = (isSo: boolean) =>
    api.db.updateTable("node").set({ schedulable: isSo }).where("id", "in", virtual.nodeIds).execute();
  await schedulable(false);
  const { id: mute } = await api.db
    .insertInto("node")
    .values({ role: "node", name: "mute", last_seen_at: new Date() })
    .returning("id")
    .executeTakeFirstOrThrow();
  const key = keys.nodeSession(mute);
  const one = await client.get(keys.nodeSession(virtual.nodeIds[0] ?? ""));
  await client.txn({ guards: [], ops: [{ put: { key, value: one?.value ?? "" } }] });
  await post("start");
  await until("it is placed there", () => containersOf(production).some(({ nodeId }) => nodeId === mute));
  await client.txn({ guards: [], ops: [{ delete: { key } }] });
  await until("its node is lost", () => replica.fleet.nodeLostAt(mute) !== null);
  await schedulable(true);
  aheadMs = 61_000;
  await isIn(production, "running");
  expect(servedOn("production")).toHaveLength(1);
});
