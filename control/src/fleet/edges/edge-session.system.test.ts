import { create, toJsonString } from "@bufbuild/protobuf";
import { RouteSchema, RouteTable_Kind } from "@svc/proto/edge";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type EdgeAppliedValue, type EdgeSessionValue, keys } from "../cluster/keys.ts";
import type { Link } from "../daemons/start.ts";
import { aDaemon, aRouter, aWorld, type DaemonFiles, until, type World } from "../daemons/testing.ts";
import { readRouting } from "../routes/routing.ts";

let world: World;
let link: Link;
let edge: DaemonFiles;
let witness: DaemonFiles;
let generation = 0;
let published: string[] = [];
beforeAll(async () => {
  world = await aWorld();
  link = await world.startLink();
  edge = await aDaemon(world, link, "edge");
  witness = await aDaemon(world, link, "edge");
});
afterAll(async () => {
  await link[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
});
beforeEach(() => publish({ put: ["a.test", "b.test"] }));
afterEach(async () => {
  for (const host of published) await world.remove(keys.route(host));
  published = [];
});

const routeJson = (host: string, upstream: string) =>
  toJsonString(
    RouteSchema,
    create(RouteSchema, { host, projectId: "p", target: { case: "proxy", value: { upstreams: [upstream] } } }),
  );
const putRoute = (host: string, upstream: string) => ({
  put: { key: keys.route(host), value: routeJson(host, upstream) },
});

/** Publishes the next generation as the leader does, entries first, the meta key with the last; returns once control heard of it. */
async function publish({ put = [], removed = [] }: { put?: string[]; removed?: string[] }): Promise<void> {
  generation += 1;
  published = [...new Set([...published, ...put])].filter((host) => !removed.includes(host));
  const meta = JSON.stringify({ generation, digest: "d", count: published.length });
  await world.etcd.txn({
    ops: [
      ...put.map((host) => putRoute(host, `10.0.0.7:${30_000 + generation}`)),
      ...removed.map((host) => ({ delete: { key: keys.route(host) } })),
      { put: { key: keys.routesMeta, value: meta } },
    ],
  });
  await heard();
}

/** Waits until the replica's watch, which all routers share, is as far as what was published. */
async function heard(): Promise<void> {
  await using router = await aRouter(link, witness);
  for (let had = 0n; had < BigInt(generation); ) {
    ({ generation: had } = await router.next("table"));
    router.send({ case: "applied", value: { generation: had } });
  }
}

const appliedNow = () => world.read<EdgeAppliedValue>(keys.edgeApplied(edge.id));
const hostsOf = (routes: readonly { host: string }[]) => routes.map(({ host }) => host);

describe("a router", () => {
  test("has its session and what it serves in etcd", async () => {
    await using router = await aRouter(link, edge, { generation: 1n, digest: "ab" });
    expect((await world.etcd.get(keys.edgeSession(edge.id)))?.modRevision).toBe(router.sessionEpoch);
    expect(await world.read<EdgeSessionValue>(keys.edgeSession(edge.id))).toMatchObject({ address: "10.0.0.9" });
    expect(await appliedNow()).toMatchObject({ generation: 1, digest: "ab", error: null });
    await router[Symbol.asyncDispose]();
    await until(
      "the key says that the stream is over",
      async () => (await world.read<EdgeSessionValue>(keys.edgeSession(edge.id)))?.detached,
    );
  });

  test("gets the whole table, then what changes, and its answers are kept", async () => {
    await using router = await aRouter(link, edge);
    const first = await router.next("table");
    expect(first).toMatchObject({ kind: RouteTable_Kind.COMPLETE, appliesTo: 0n, generation: BigInt(generation) });
    expect(hostsOf(first.upserts)).toEqual(["a.test", "b.test"]);
    expect(first.upserts[0]?.target).toMatchObject({ case: "proxy" });

    // Two generations while the first is still being applied come as one change.
    await publish({ put: ["c.test"] });
    await publish({ put: ["b.test"], removed: ["a.test"] });
    router.send({ case: "renew", value: { n: 1n } });
    await router.next("renewAck");
    expect(router.waiting("table")).toBe(0);
    router.send({ case: "applied", value: { generation: first.generation, digest: "aa" } });
    await until("applied", async () => (await appliedNow())?.digest === "aa");

    const second = await router.next("table");
    expect(second).toMatchObject({
      kind: RouteTable_Kind.DELTA,
      appliesTo: first.generation,
      generation: BigInt(generation),
      removedHosts: ["a.test"],
    });
    expect(hostsOf(second.upserts)).toEqual(["b.test", "c.test"]);
    expect(second.bulkToken).not.toBe("");
    router.send({ case: "applied", value: { generation: second.generation, digest: "bb" } });
    await until("applied", async () => (await appliedNow())?.generation === generation);
  });

  test("that says a generation which nobody could have given it keeps nobody from seeing what all edges serve", async () => {
    await using router = await aRouter(link, edge, { generation: 2n ** 64n - 1n });
    await router.next("table");
    expect((await readRouting(world.etcd, [])).edgeApplied(edge.id)?.generation).toBe(Number.MAX_SAFE_INTEGER);
    router.send({ case: "edgeState", value: { generation: 2n ** 64n - 1n } });
    await until("its state", async () => (await appliedNow())?.state?.generation === Number.MAX_SAFE_INTEGER);
    expect((await readRouting(world.etcd, [])).edgeApplied(edge.id)).not.toBeNull();
  });

  test("never gets a table that is half written", async () => {
    await using router = await aRouter(link, edge);
    const { generation: had } = await router.next("table");
    router.send({ case: "applied", value: { generation: had } });
    await until("applied", async () => (await appliedNow())?.generation === Number(had));

    // Part of the next generation, in a transaction of its own.
    const { revision } = await world.etcd.txn({
      ops: [putRoute("d.test", "10.0.0.7:1"), putRoute("e.test", "10.0.0.7:1")],
    });
    published.push("d.test", "e.test");
    await using late = await aRouter(link, await aDaemon(world, link, "edge"));
    late.send({ case: "renew", value: { n: 1n } });
    await late.next("renewAck");
    // Whoever comes now gets the last whole table.
    const whole = await late.next("table");
    expect(hostsOf(whole.upserts)).toEqual(["a.test", "b.test"]);
    expect(router.waiting("table")).toBe(0);

    await publish({ removed: ["a.test"] });
    const next = await router.next("table");
    expect(hostsOf(next.upserts)).toEqual(["d.test", "e.test"]);
    expect(next.removedHosts).toEqual(["a.test"]);
    expect(revision).toBeGreaterThan(0n);
  });

  test("gets all other hosts where the route of one cannot be read", async () => {
    await using router = await aRouter(link, edge);
    const { generation: had } = await router.next("table");
    router.send({ case: "applied", value: { generation: had } });
    generation += 1;
    published = [...published, "bad.test"];
    const meta = JSON.stringify({ generation, digest: "d", count: published.length });
    await world.etcd.txn({
      ops: [
        putRoute("a.test", "10.0.0.8:30000"),
        { put: { key: keys.route("bad.test"), value: "{" } },
        { put: { key: keys.routesMeta, value: meta } },
      ],
    });
    const table = await router.next("table");
    expect(table.generation).toBe(BigInt(generation));
    expect(hostsOf(table.upserts)).toEqual(["a.test"]);
  });

  test("gets the whole table again when it asks, or could not apply the last", async () => {
    await using router = await aRouter(link, edge);
    const first = await router.next("table");
    router.send({ case: "applied", value: { generation: 0n, error: "disk full\u001b[31m" } });
    const second = await router.next("table");
    expect(second).toMatchObject({ kind: RouteTable_Kind.COMPLETE, generation: first.generation });
    await until("the refusal is kept", async () => (await appliedNow())?.error === "disk full[31m");
    expect(await appliedNow()).toMatchObject({ generation: 0 });
    router.send({ case: "applied", value: { generation: second.generation, resync: true } });
    expect(await router.next("table")).toMatchObject({ kind: RouteTable_Kind.COMPLETE });
  });

  test("is superseded by a newer stream, whose answers alone count", async () => {
    await using first = await aRouter(link, edge);
    await using second = await aRouter(link, edge, { instanceId: "instance-2" });
    await first.next("superseded");
    expect(await first.ended).toBeNull();
    const { generation: newest } = await second.next("table");
    second.send({ case: "applied", value: { generation: newest, digest: "cc" } });
    await until("applied", async () => (await appliedNow())?.digest === "cc");
  });
});
