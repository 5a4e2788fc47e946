import { create, toJsonString } from "@bufbuild/protobuf";
import { GateSchema, PageTarget_Page, RouteSchema } from "@svc/proto/edge";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { keys } from "../cluster/keys.ts";
import type { Link } from "../daemons/start.ts";
import { aDaemon, aRouter, aWorld, type DaemonFiles, type World } from "../daemons/testing.ts";

let world: World;
let link: Link;
let edge: DaemonFiles;
let witness: DaemonFiles;
let generation = 0;
/** Present gates by project; a project whose load fails is asked for again. */
let gates: Map<string, string>;
let failures: number;
let asked: string[][];

beforeAll(async () => {
  world = await aWorld();
  link = await world.startLink({
    async loadGates(projectIds) {
      asked.push([...projectIds]);
      if (failures > 0) {
        failures -= 1;
        throw new Error("the database is away");
      }
      return projectIds.flatMap((projectId) => {
        const revision = gates.get(projectId);
        if (revision === undefined) return [];
        return [create(GateSchema, { projectId, revision, key: new Uint8Array(32), passwordHash: `hash ${revision}` })];
      });
    },
  });
  edge = await aDaemon(world, link, "edge");
  witness = await aDaemon(world, link, "edge");
});
afterAll(async () => {
  await link[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
});
beforeEach(() => {
  gates = new Map();
  asked = [];
  failures = 0;
});

/** Publishes the next generation; returns once control heard of it. */
async function publish(routes: { host: string; projectId: string; gate?: string }[]): Promise<void> {
  generation += 1;
  const json = (route: object) =>
    toJsonString(
      RouteSchema,
      create(RouteSchema, { ...route, target: { case: "proxy", value: { upstreams: ["10.0.0.7:1"] } } }),
    );
  const meta = JSON.stringify({ generation, digest: "d", count: routes.length });
  const present = await world.etcd.range(keys.route(""));
  const gone = present.entries
    .map(({ key }) => key)
    .filter((key) => !routes.some(({ host }) => keys.route(host) === key));
  await world.etcd.txn({
    ops: [
      ...routes.map((route) => ({ put: { key: keys.route(route.host), value: json(route) } })),
      ...gone.map((key) => ({ delete: { key } })),
      { put: { key: keys.routesMeta, value: meta } },
    ],
  });
  // The replica's watch is shared by all routers; this one asks for no passwords.
  await using router = await aRouter(link, witness, { knowsGates: false });
  for (let had = 0n; had < BigInt(generation); ) {
    ({ generation: had } = await router.next("table"));
    router.send({ case: "applied", value: { generation: had } });
  }
}

test("a router is told the passwords that its table names, each once, and none that it does not", async () => {
  gates = new Map([
    ["p1", "r1"],
    ["p2", "r2"],
    ["p3", "r3"],
  ]);
  await publish([
    { host: "a.test", projectId: "p1", gate: "r1" },
    { host: "dev-a.test", projectId: "p1", gate: "r1" },
    { host: "b.test", projectId: "p2", gate: "r2" },
    { host: "c.test", projectId: "p3" },
  ]);
  await using router = await aRouter(link, edge);
  const told = await router.next("gates");
  expect(told.gates).toMatchObject([
    { projectId: "p1", revision: "r1", passwordHash: "hash r1" },
    { projectId: "p2", revision: "r2" },
  ]);
  expect(asked).toEqual([["p1", "p2"]]);
  router.send({ case: "applied", value: { generation: (await router.next("table")).generation } });

  gates.set("p1", "r9").set("p3", "r4");
  await publish([
    { host: "a.test", projectId: "p1", gate: "r9" },
    { host: "b.test", projectId: "p2", gate: "r2" },
    { host: "c.test", projectId: "p3", gate: "r4" },
  ]);
  expect((await router.next("gates")).gates.map(({ revision }) => revision)).toEqual(["r9", "r4"]);
});

test("a router that does not know of passwords gets a page for the sites that have one, and no secrets", async () => {
  gates = new Map([["p1", "r1"]]);
  const site = { host: "a.test", projectId: "p1" };
  const open = { host: "c.test", projectId: "p3" };
  await publish([{ ...site, gate: "r1" }, { host: "b.test", projectId: "p1" }, open]);
  await using old = await aRouter(link, edge, { knowsGates: false });
  const whole = await old.next("table");
  expect(whole.upserts.map(({ host, target }) => [host, target.case])).toEqual([
    ["a.test", "page"],
    ["b.test", "proxy"],
    ["c.test", "proxy"],
  ]);
  expect(whole.upserts[0]).toMatchObject({ projectId: "p1", target: { value: { page: PageTarget_Page.STOPPED } } });
  old.send({ case: "applied", value: { generation: whole.generation } });

  await publish([site, { host: "b.test", projectId: "p1", gate: "r1" }, open]);
  const change = await old.next("table");
  expect(change.upserts.map(({ host, target }) => [host, target.case])).toEqual([
    ["a.test", "proxy"],
    ["b.test", "page"],
    ["c.test", "proxy"],
  ]);
  old.send({ case: "applied", value: { generation: change.generation } });
  expect(asked).toEqual([]);
  expect(old.waiting("gates")).toBe(0);

  // Replaced by one that does.
  await using router = await aRouter(link, edge, { instanceId: "instance-2", generation: change.generation });
  expect((await router.next("gates")).gates).toMatchObject([{ revision: "r1" }]);
  const again = await router.next("table");
  expect(again.upserts[1]).toMatchObject({ host: "b.test", gate: "r1", target: { case: "proxy" } });
});

test("a password that changes between table and message waits for the next table", async () => {
  gates = new Map([["p1", "newer"]]);
  await publish([{ host: "a.test", projectId: "p1", gate: "older" }]);
  await using router = await aRouter(link, edge);
  router.send({ case: "applied", value: { generation: (await router.next("table")).generation } });
  expect(router.waiting("gates")).toBe(0);
  await publish([{ host: "a.test", projectId: "p1", gate: "newer" }]);
  expect((await router.next("gates")).gates).toMatchObject([{ revision: "newer" }]);
});

test("tables do not wait for passwords, and passwords come once the database is back", async () => {
  gates = new Map([["p1", "r1"]]);
  failures = 2;
  await publish([{ host: "a.test", projectId: "p1", gate: "r1" }]);
  await using router = await aRouter(link, edge);
  await router.next("table");
  expect((await router.next("gates")).gates).toMatchObject([{ revision: "r1" }]);
  expect(asked.length).toBeGreaterThanOrEqual(3);
});
