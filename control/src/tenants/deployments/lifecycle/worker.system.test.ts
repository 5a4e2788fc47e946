import { randomUUID } from "node:crypto";
import { type Channel, manifestSchema } from "@svc/proto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { keys } from "../../../fleet/cluster/keys.ts";
import { findChannelState, setChannelState } from "../../../fleet/routes/store.ts";
import { type TestApi, type TestUser, testApi } from "../../../http/testing.ts";
import type { Project } from "../../../stores/db/tables.ts";
import type { Etcd } from "../../../stores/etcd/index.ts";
import { type EtcdServer, startEtcd, testClient, until } from "../../../stores/etcd/testing.ts";
import { acceptDeployment } from "../testing/accept.ts";
import { type Replica, startReplica } from "../testing/replica.ts";
import { buildWarnings, createRandom, startVirtualFleet, type VirtualFleet } from "../testing/virtual-fleet.ts";

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

async function deploy(channel: Channel, { warnings = [] as string[] } = {}): Promise<string> {
  const id = randomUUID();
  const caller = await api.callerOf(user);
  const manifest = { version: 2, app: { name: "Shop", type: "ssr" }, start: { command: "node server.js" } };
  const { clock, config, secrets } = api.context;
  await api.db.transaction().execute((tx) =>
    acceptDeployment(tx, { clock, config, secrets }, caller, project.id, {
      id,
      manifest: manifestSchema.parse(manifest),
      metadata: {},
      admission: { channel, prNumber: null },
      source: { repository: `svc/${project.id}/source`, digest: `sha256:${"0".repeat(64)}`, sizeBytes: 1 },
      fileEnv: {},
      warnings,
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
  virtual.fleet.placements().filter(({ placement }) => placement.ownerId === id && placement.kind === "serve");

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

test("a deployment tells what its build warns of, and each thing once", async () => {
  await using _replica = await newReplica();
  const known = ["Known before.", buildWarnings[1]];
  const id = await deploy("preview", { warnings: known });
  await isIn(id, "running");
  const get = (path: string) => api.call("GET", path, { session: user.session });
  expect((await get(`/deployments/${id}`)).body.deployment.warnings).toEqual([...known, buildWarnings[0]]);
  const { deployments } = (await get(`/projects/${project.id}/deployments?channel=preview`)).body;
  expect(deployments.map((each: { warnings: string[] }) => each.warnings)).toEqual([[...known, buildWarnings[0]]]);
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

/** Keeps the work of a key from being done until what is returned is called. */
async function holdUp(key: string): Promise<() => Promise<unknown>> {
  const { id } = await api.db
    .insertInto("work_item")
    .values({
      ...{ kind: "deploy", key, payload: JSON.stringify({ deploymentId: randomUUID() }) },
      ...{ state: "queued", run_at: new Date(Date.now() + 3_600_000) },
    })
    .returning("id")
    .executeTakeFirstOrThrow();
  return () => api.db.deleteFrom("work_item").where("id", "=", id).execute();
}

describe("a stop while a deploy is on its way", () => {
  /** Production serves one; another one is accepted, and cannot go on until `goOn` is called. */
  async function onItsWay() {
    const serving = await deploy("production");
    await isIn(serving, "running");
    const goOn = await holdUp(project.id);
    return { serving, next: await deploy("production"), goOn };
  }
  const heldOf = async (id: string) =>
    (await api.call("GET", `/deployments/${id}`, { session: user.session })).body.deployment.held;

  test("covers it: it is made ready, serves nobody, and comes up with a start", async () => {
    await using _replica = await newReplica();
    const { serving, next, goOn } = await onItsWay();
    const { body } = await post("stop");
    expect(body).toMatchObject({ deploymentId: serving, warnings: [expect.stringContaining(next)] });
    expect(await heldOf(next)).toBe(true);
    await isIn(serving, "stopped");
    const seen: unknown[] = [];
    using _ = virtual.fleet.onChange("routes", () => seen.push(servedOn("production")));
    await goOn();
    await isIn(next, "stopped");
    await isIn(serving, "superseded");
    expect(await heldOf(next)).toBe(true);
    expect(servedOn("production")).toBe("PAGE_STOPPED");
    expect(seen.every((each) => each === "PAGE_STOPPED")).toBe(true);

    expect((await post("start")).body.deploymentId).toBe(next);
    await isIn(next, "running");
    expect(await heldOf(next)).toBeUndefined();
    expect(servedOn("production")).toHaveLength(1);
  });

  test("and a start before it is ready: it serves as if nobody had asked", async () => {
    await using _replica = await newReplica();
    const { serving, next, goOn } = await onItsWay();
    await post("stop");
    await isIn(serving, "stopped");
    const { body } = await post("start");
    expect(body).toMatchObject({ deploymentId: serving, warnings: [expect.stringContaining(next)] });
    await isIn(serving, "running");
    await goOn();
    await isIn(next, "running");
  });

  test("does not cover what is deployed after it: that serves again", async () => {
    await using _replica = await newReplica();
    const { serving, next, goOn } = await onItsWay();
    await post("stop");
    await isIn(serving, "stopped");
    const after = await deploy("production");
    await goOn();
    await isIn(after, "running");
    expect(["canceled", "superseded"]).toContain(
      (await api.db.selectFrom("deployment").select("status").where("id", "=", next).executeTakeFirstOrThrow()).status,
    );
    expect(servedOn("production")).toHaveLength(1);
  });

  test("stops what served before, too, when the next one does not get there", async () => {
    await using _replica = await newReplica();
    const serving = await deploy("production");
    await isIn(serving, "running");
    virtual.setEdgeAway(true);
    const next = await deploy("production");
    await until("the next one to take the traffic over", async () => {
      const state = await findChannelState(api.db, { project_id: project.id, channel: "production", pr_number: null });
      return state?.deployment_id === next;
    });
    expect((await post("stop")).body.deploymentId).toBe(next);
    const cancelled = await api.call("POST", `/deployments/${next}/cancel`, { session: user.session });
    expect(cancelled.status).toBe(202);
    await isIn(next, "canceled");
    virtual.setEdgeAway(false);
    await isIn(serving, "stopped");
    expect(servedOn("production")).toBe("PAGE_STOPPED");
  });
});

test("a stop that is carried out late leaves alone what was deployed after it", async () => {
  await using _replica = await newReplica();
  const before = await deploy("production");
  await isIn(before, "running");
  const goOn = await holdUp(`lifecycle/${project.id}`);
  expect((await post("stop")).status).toBe(202);
  const after = await deploy("production");
  await isIn(after, "running");
  await goOn();
  await until("the stop to be carried out", async () => {
    const work = api.db.selectFrom("work_item").select("id").where("key", "=", `lifecycle/${project.id}`);
    return (await work.where("state", "in", ["queued", "running"]).execute()).length === 0;
  });
  await isIn(after, "running");
  expect(servedOn("production")).toHaveLength(1);
});

describe("what is open on containers that a deploy has replaced", () => {
  const drainOf = (id: string) => containersOf(id).map(({ placement }) => placement.drainSeconds);
  /** One that serves, and one before it whose containers have open connections. */
  async function aReplaced(channel: Channel): Promise<{ replaced: string; serving: string }> {
    const replaced = await deploy(channel);
    await isIn(replaced, "running");
    virtual.busy.add(replaced);
    const serving = await deploy(channel);
    await isIn(serving, "running");
    return { replaced, serving };
  }
  const drains = (id: string) => until("its containers to drain", () => drainOf(id)[0] === 30);
  const isGone = (id: string) => until("its containers to be gone", () => containersOf(id).length === 0);

  test("has the time of its manifest, also from another control, while the new one runs", async () => {
    const first = await newReplica();
    const { replaced, serving } = await aReplaced("production");
    await drains(replaced);
    await first[Symbol.asyncDispose]();
    await using _second = await newReplica();
    const next = await deploy("production");
    await isIn(next, "running");
    expect(drainOf(replaced)).toEqual([30]);
    // Nothing is open there any more, or the time is up.
    virtual.busy.delete(replaced);
    await isGone(replaced);
    await isGone(serving);
  });

  test("ends with the site when that is stopped, and goes on in other channels", async () => {
    await using _replica = await newReplica();
    const dev = await aReplaced("dev");
    const production = await aReplaced("production");
    await drains(dev.replaced);
    await drains(production.replaced);
    await post("stop");
    await isIn(production.serving, "stopped");
    await isGone(production.replaced);
    expect(drainOf(dev.replaced)).toEqual([30]);
    virtual.busy.clear();
  });

  test("ends with the site also when what is on its way ends as stopped before the stop is done", async () => {
    await using _replica = await newReplica();
    const { replaced, serving } = await aReplaced("production");
    await drains(replaced);
    const goOn = await holdUp(project.id);
    const next = await deploy("production");
    const stop = await holdUp(`lifecycle/${project.id}`);
    await post("stop");
    await goOn();
    await isIn(next, "stopped");
    await isIn(serving, "superseded");
    await isGone(replaced);
    await stop();
    virtual.busy.clear();
  });

  test("ends when the project is suspended", async () => {
    await using _replica = await newReplica();
    const { replaced } = await aReplaced("dev");
    await drains(replaced);
    const admin = await api.newUser({ admin: true });
    await api.call("POST", `/admin/projects/${project.id}/suspend`, { session: admin.session });
    await isGone(replaced);
    await api.call("POST", `/admin/projects/${project.id}/resume`, { session: admin.session });
    await until("the project to be resumed", async () => {
      const row = await api.db.selectFrom("project").selectAll().where("id", "=", project.id).executeTakeFirstOrThrow();
      return row.suspended_at === null;
    });
    virtual.busy.clear();
  });
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

test("a start that another deployment has overtaken keeps no stop waiting", async () => {
  await using _replica = await newReplica();
  const older = await deploy("production");
  await isIn(older, "running");
  const newer = await deploy("production");
  await isIn(newer, "running");
  await post("stop");
  await isIn(newer, "stopped");
  await until("its containers to be gone", async () => containersOf(newer).length === 0);
  // Nothing is placed, so the start waits.
  await api.db.updateTable("node").set({ schedulable: false }).execute();
  await post("start");
  await until("the start to ask for a container", () =>
    api.db
      .selectFrom("task")
      .select("id")
      .where("owner_id", "=", newer)
      .where("desired", "=", "running")
      .executeTakeFirst(),
  );
  // As a deployment does that takes the channel over: the one before it is over, and its containers go.
  await api.db.transaction().execute(async (tx) => {
    await tx.updateTable("deployment").set({ status: "superseded" }).where("id", "=", newer).execute();
    await tx.updateTable("deployment").set({ status: "running" }).where("id", "=", older).execute();
    await tx.updateTable("task").set({ desired: "removed" }).where("owner_id", "=", newer).execute();
    const channel = { project_id: project.id, channel: "production" as const, pr_number: null };
    await setChannelState(tx, channel, { deploymentId: older, stopped: false });
  });
  expect((await post("stop")).body.deploymentId).toBe(older);
  await isIn(older, "stopped");
  await api.db.updateTable("node").set({ schedulable: true }).execute();
});
