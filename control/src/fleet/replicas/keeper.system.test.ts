import { randomUUID } from "node:crypto";
import { manifestSchema } from "@svc/proto";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type TestApi, type TestUser, testApi } from "../../http/testing.ts";
import type { Etcd } from "../../stores/etcd/index.ts";
import { type EtcdServer, startEtcd, testClient, until } from "../../stores/etcd/testing.ts";
import { acceptDeployment } from "../../tenants/deployments/testing/accept.ts";
import { type Replica, startReplica } from "../../tenants/deployments/testing/replica.ts";
import { createRandom, startVirtualFleet, type VirtualFleet } from "../../tenants/deployments/testing/virtual-fleet.ts";
import { hasEnded, keys } from "../cluster/keys.ts";

/*
 * Replicas that are replaced: a whole control replica on real stores, with nodes and an edge that only exist in etcd.
 * Once a site runs the clock is an hour ahead, so that the replica has led for long.
 */

let etcd: EtcdServer;
let api: TestApi;
let user: TestUser;
let virtual: VirtualFleet;
let client: Etcd;
let replica: Replica;
let aheadMs = 0;

const newReplica = (): Promise<Replica> =>
  startReplica({
    databaseUrl: api.context.config.databaseUrl,
    etcdEndpoint: etcd.endpoint,
    content: api.context.config.content,
    registry: { getManifest: async () => ({ manifest: {}, digest: "", sizeBytes: 0 }) as never },
    now: () => new Date(Date.now() + aheadMs),
  });

beforeAll(async () => {
  [etcd, api] = await Promise.all([startEtcd(), testApi()]);
  user = await api.newUser();
  client = testClient(etcd.endpoint);
  virtual = await startVirtualFleet({ db: api.db, etcd: client, random: createRandom(1), nodes: 4 });
  virtual.calm();
  replica = await newReplica();
});
afterAll(async () => {
  await replica[Symbol.asyncDispose]();
  await virtual[Symbol.asyncDispose]();
  await api[Symbol.asyncDispose]();
  await etcd[Symbol.asyncDispose]();
});
beforeEach(async () => {
  for (const id of virtual.nodeIds) virtual.setNodeAway(id, false);
  await api.db.updateTable("node").set({ drain: "none", schedulable: true }).execute();
  await until("every node is there", () =>
    virtual.nodeIds.every((id) => virtual.fleet.nodeLink(id).link === "connected"),
  );
});

/** A site with so many replicas, running. */
async function aSite(replicas: number, owner = user): Promise<{ id: string; host: string }> {
  // A deployment that took an hour would be given up.
  aheadMs = 0;
  const project = await api.newProject(owner, { type: "ssr" });
  const id = randomUUID();
  const caller = await api.callerOf(owner);
  const app = { name: "Shop", type: "ssr", replicas };
  const manifest = manifestSchema.parse({ version: 2, app, start: { command: "node server.js" } });
  const { clock, config, secrets } = api.context;
  await api.db.transaction().execute((tx) =>
    acceptDeployment(tx, { clock, config, secrets }, caller, project.id, {
      ...{ id, manifest, metadata: {}, fileEnv: {} },
      admission: { channel: "production", prNumber: null },
      source: { repository: `svc/${project.id}/source`, digest: `sha256:${"0".repeat(64)}`, sizeBytes: 1 },
    }),
  );
  await until("it runs", async () => (await rowOf(id)).status === "running");
  aheadMs = 3_600_000;
  await until("the replica has led for long", () => virtual.fleet.status()?.storm === null);
  const host = [...virtual.fleet.routeTable().values()].find(({ deploymentId }) => deploymentId === id)?.host ?? "";
  return { id, host };
}

const rowOf = (id: string) =>
  api.db.selectFrom("deployment").selectAll().where("id", "=", id).executeTakeFirstOrThrow();
/** Nodes of the site's containers that are to run. */
const nodesOf = (id: string) =>
  virtual.fleet
    .placements()
    .filter(
      ({ placement }) => placement.ownerId === id && placement.kind === "serve" && placement.desired === "running",
    )
    .map(({ nodeId }) => nodeId);
/** Whatever has not ended on any node. */
const containersOf = (id: string) =>
  virtual.fleet.placements().filter(({ nodeId, placement }) => {
    const observed = virtual.fleet.observation(nodeId, placement.placementId)?.observed;
    return placement.ownerId === id && placement.kind === "serve" && !(observed && hasEnded(observed));
  });
const upstreams = (host: string) => virtual.fleet.route(host)?.proxy?.upstreams ?? [];
const setNode = (id: string, change: { drain?: "draining" | "none"; schedulable?: boolean; lifecycle?: "fenced" }) =>
  api.db.updateTable("node").set(change).where("id", "=", id).execute();
const causes = async (id: string) =>
  (
    await api.db.selectFrom("task").select("cause").where("owner_id", "=", id).where("cause", "is not", null).execute()
  ).map(({ cause }) => cause);

describe("a replica whose node is lost", () => {
  test("runs on another node, and goes from the first one when that is back", async () => {
    const { id, host } = await aSite(1);
    const [first = ""] = nodesOf(id);
    const before = upstreams(host);
    virtual.setNodeAway(first, true);
    await until(
      "visitors go to another container",
      () => upstreams(host).length === 1 && upstreams(host)[0] !== before[0],
    );
    await until("only one is to run", () => nodesOf(id).length === 1 && nodesOf(id)[0] !== first);
    expect(await causes(id)).toEqual(["node lost"]);
    virtual.setNodeAway(first, false);
    await until("one container is left", () => containersOf(id).length === 1);
    expect(upstreams(host)).toHaveLength(1);
    expect((await rowOf(id)).status).toBe("running");
  });

  test("leaves the route at once when others serve, and each of them stays", async () => {
    const { id, host } = await aSite(2);
    const [first = "", second = ""] = nodesOf(id);
    expect(first).not.toBe(second);
    const before = new Set(upstreams(host));
    virtual.setNodeAway(first, true);
    await until(
      "it has left the route",
      () => upstreams(host).length === 1 || [...upstreams(host)].some((each) => !before.has(each)),
    );
    expect(upstreams(host).some((each) => before.has(each))).toBe(true);
    await until("there are two again", () => upstreams(host).length === 2 && !nodesOf(id).includes(first));
    expect(nodesOf(id)).toContain(second);
  });
});

describe("a replica whose node is emptied", () => {
  test("is served by its successor before it goes", async () => {
    const { id, host } = await aSite(1);
    const [first = ""] = nodesOf(id);
    const [before = ""] = upstreams(host);
    const seen: string[][] = [];
    using _ = virtual.fleet.onChange("routes", () => seen.push([...upstreams(host)]));
    await setNode(first, { drain: "draining", schedulable: false });
    await until("one container is left, on another node", () => {
      const [only, ...others] = containersOf(id);
      return only !== undefined && others.length === 0 && only.nodeId !== first;
    });
    expect(seen.every((each) => each.length > 0)).toBe(true);
    expect(upstreams(host)).not.toContain(before);
    expect(await causes(id)).toEqual(["node draining"]);
  });

  test("stays when the drain is called off before its successor serves", async () => {
    const { id, host } = await aSite(1);
    virtual.broken.add(id);
    const [first = ""] = nodesOf(id);
    const before = upstreams(host);
    await setNode(first, { drain: "draining", schedulable: false });
    await until("a successor is made", () => nodesOf(id).length === 2);
    await setNode(first, { drain: "none" });
    await until("one container is left", () => nodesOf(id).length === 1 && containersOf(id).length === 1);
    virtual.broken.delete(id);
    expect(nodesOf(id)).toEqual([first]);
    expect(upstreams(host)).toEqual(before);
  });
});

test("a replica on a fenced node counts as gone", async () => {
  const { id, host } = await aSite(1);
  const [first = ""] = nodesOf(id);
  virtual.setNodeAway(first, true);
  await setNode(first, { lifecycle: "fenced", schedulable: false });
  await until(
    "it serves elsewhere",
    () => upstreams(host).length === 1 && nodesOf(id).every((nodeId) => nodeId !== first),
  );
  await until("nothing is left of it in the store", () => containersOf(id).length === 1);
  await api.db.updateTable("node").set({ lifecycle: "active" }).where("id", "=", first).execute();
});

test("a site that cannot be kept holds up no other one", async () => {
  const [only = "", ...others] = virtual.nodeIds;
  for (const id of others) await setNode(id, { schedulable: false });
  const held = await api.newUser();
  const [locked, unreadable, sound] = [await aSite(1, held), await aSite(1), await aSite(1)];
  for (const id of others) await setNode(id, { schedulable: true });
  await api.db.updateTable("deployment").set({ manifest: "{}" }).where("id", "=", unreadable.id).execute();
  await replica[Symbol.asyncDispose]();
  await api.db.transaction().execute(async (tx) => {
    await tx.selectFrom("auth.user").select("id").where("id", "=", held.id).forUpdate().execute();
    aheadMs = 0;
    replica = await newReplica();
    await until("it leads", () => virtual.fleet.status()?.storm != null);
    aheadMs = 3_600_000;
    await setNode(only, { drain: "draining", schedulable: false });
    await until("the sound one has moved", () => !nodesOf(sound.id).includes(only));
    expect(nodesOf(locked.id)).toEqual([only]);
  });
  await until("the other one moves once it can", () => !nodesOf(locked.id).includes(only));
  expect(nodesOf(unreadable.id)).toEqual([only]);
  await api.db.updateTable("deployment").set({ status: "failed" }).where("id", "=", unreadable.id).execute();
}, 90_000);

test("what nobody knows a node of any more goes only once another one serves", async () => {
  const { id, host } = await aSite(1);
  const [first = ""] = nodesOf(id);
  const before = [...upstreams(host)];
  virtual.broken.add(id);
  virtual.setNodeAway(first, true);
  await api.db.updateTable("node").set({ role: "edge", schedulable: false }).where("id", "=", first).execute();
  await until("a replacement is made", async () => (await causes(id)).includes("node lost"));
  expect(upstreams(host)).toEqual(before);
  virtual.broken.delete(id);
  await until("it serves elsewhere", () => upstreams(host).length === 1 && upstreams(host)[0] !== before[0]);
  await api.db.updateTable("node").set({ role: "node", schedulable: true }).where("id", "=", first).execute();
}, 60_000);

test("session keys that nobody has given back are cleared after a lease", async () => {
  const nodeId = randomUUID();
  const session = {
    ...{ serverId: "gone", instanceId: "i", bootId: "b", address: "127.0.9.9", version: "0", labels: {} },
    ...{
      capacity: { memoryMb: 1, cpuMillicores: 1, pids: 1, diskMb: 1 },
      platform: { os: "linux", architecture: "x" },
    },
    ...{ connectedAt: new Date().toISOString(), reconciled: true },
  };
  const key = keys.nodeSession(nodeId);
  aheadMs = 0;
  await client.txn({ guards: [], ops: [{ put: { key, value: JSON.stringify(session) } }] });
  await until("it is seen", () => replica.fleet.nodeLink(nodeId).link === "unknown");
  expect(await client.get(key)).not.toBeNull();
  aheadMs = 60_000;
  await until("it is cleared", async () => (await client.get(key)) === null);
});

test("a control replica that is killed in the middle leaves nothing twice", async () => {
  const { id } = await aSite(2);
  for (let calls = 1; calls <= 40; calls += 6) {
    const [first = ""] = nodesOf(id);
    replica.crashAfter(calls);
    await setNode(first, { drain: "draining", schedulable: false });
    await replica.crashed;
    await replica[Symbol.asyncDispose]();
    aheadMs = 0;
    replica = await newReplica();
    await until("it has moved", () => !nodesOf(id).includes(first) && nodesOf(id).length === 2);
    await until("two containers are left", () => containersOf(id).length === 2);
    await setNode(first, { drain: "none", schedulable: true });
  }
}, 240_000);
