import { EdgeState_Phase } from "@svc/proto/edge";
import { systemClock as clock } from "@svc/runtime/system";
import pino from "pino";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { type EdgeAppliedValue, keys } from "../cluster/keys.ts";
import { type OpenFleet, openFleet } from "../cluster/testing.ts";
import type { Link } from "../daemons/start.ts";
import { aDaemon, aRouter, aWorld, type DaemonFiles, until, type World } from "../daemons/testing.ts";
import { actOnNode } from "../nodes/actions/act.ts";
import { drainOnce } from "../nodes/drain/drain.ts";
import { drainRows } from "../nodes/drain/store.ts";
import { edgesInRotation } from "../routes/progress.ts";
import { fleetView } from "../view.ts";

const log = pino({ level: "silent" });
let world: World;
let link: Link;
let fleet: OpenFleet;
let edge: DaemonFiles;
beforeAll(async () => {
  world = await aWorld();
  link = await world.startLink();
  fleet = await openFleet(world.etcd, { clock, log });
});
afterAll(async () => {
  await fleet?.[Symbol.asyncDispose]();
  await link?.[Symbol.asyncDispose]();
  await world?.[Symbol.asyncDispose]();
});
beforeEach(async () => {
  edge = await aDaemon(world, link, "edge");
});

const db = () => world.database.db;
const isIn = async () => (await edgesInRotation(db())).includes(edge.id);
const rowOf = () => db().selectFrom("node").selectAll().where("id", "=", edge.id).executeTakeFirstOrThrow();
const seen = () => fleetView(fleet, { memory: { hints: null }, etcd: world.etcd });
const act = (action: "drain" | "cancel-drain" | "uncordon", view = seen()) =>
  db()
    .transaction()
    .execute((tx) => actOnNode(tx, view, edge.id, action, { words: {}, confirm: true, now: new Date() }));
const settle = () => drainOnce({ drains: drainRows(db()), etcd: world.etcd, fleet, log, clock });
const stateNow = async () => (await world.read<EdgeAppliedValue>(keys.edgeApplied(edge.id)))?.state;
const whole = { lacks: "", unready: "" };

test("a new edge is in rotation once it says that it lacks nothing, and hears of it after that", async () => {
  await using router = await aRouter(link, edge, { knowsDrain: true });
  expect(await router.next("drain")).toMatchObject({ leave: false, inRotation: false, tellsCertificates: false });
  router.send({
    case: "edgeState",
    value: { phase: EdgeState_Phase.SERVING, lacks: "files of 2 sites", unready: "x" },
  });
  await until("its word is kept", async () => (await stateNow())?.lacks === "files of 2 sites");
  expect(await isIn()).toBe(false);
  router.send({ case: "edgeState", value: { phase: EdgeState_Phase.SERVING, lacks: "", unready: "x" } });
  expect(await router.next("drain")).toMatchObject({ leave: false, inRotation: true });
  expect(await isIn()).toBe(true);
});

test("an edge of before that counts from its first word on, and is drained at once", async () => {
  const other = await aDaemon(world, link, "edge");
  await using _other = await aRouter(link, other);
  await using _router = await aRouter(link, edge);
  await until("it to be in", isIn);
  await until("it to be seen", () => fleet.edgeApplied(edge.id));
  expect(await act("drain")).toMatchObject({ node: { drain: "drained" } });
});

test("a drain is told, shown as it goes on, and over when the edge says so; canceled, it may come back", async () => {
  await using router = await aRouter(link, edge, { knowsDrain: true });
  await router.next("drain");
  router.send({ case: "edgeState", value: { phase: EdgeState_Phase.SERVING, ...whole } });
  await router.next("drain");
  await until("it to be seen", () => fleet.edgeApplied(edge.id)?.state?.lacks === null);

  expect(await act("drain")).toMatchObject({ node: { drain: "draining" } });
  expect(await isIn()).toBe(false);
  const { generation, leave, inRotation } = await router.next("drain");
  expect({ leave, inRotation }).toEqual({ leave: true, inRotation: false });
  const say = (phase: EdgeState_Phase) =>
    router.send({ case: "edgeState", value: { generation, phase, lacks: "", unready: "it is leaving" } });
  say(EdgeState_Phase.LEAVING);
  await until("it to be seen", () => fleet.edgeApplied(edge.id)?.state?.phase === "leaving");
  await settle();
  expect((await rowOf()).drain).toBe("draining");

  // A new stream in the middle of it begins without a word of how far the edge is.
  await using again = await aRouter(link, edge, { knowsDrain: true });
  await router.next("superseded");
  expect(await again.next("drain")).toMatchObject({ generation, leave: true });
  await until("it to be seen", () => fleet.edgeApplied(edge.id)?.state?.phase === "serving");
  await settle();
  expect((await rowOf()).drain).toBe("draining");
  again.send({ case: "edgeState", value: { generation, phase: EdgeState_Phase.DRAINED, ...whole } });
  await until("it to be seen", () => fleet.edgeApplied(edge.id)?.state?.phase === "drained");
  await Promise.all([settle(), settle()]);
  expect((await rowOf()).drain).toBe("drained");

  await act("cancel-drain");
  expect(await again.next("drain")).toMatchObject({ generation: generation + 1n, leave: false, inRotation: false });
  await db().updateTable("node").set({ schedulable: true }).where("id", "=", edge.id).execute();
  expect(await again.next("drain")).toMatchObject({ leave: false, inRotation: true });
});

test("the drain of an edge that nobody hears any more ends when its time is up", async () => {
  const gone = { drain: "draining", schedulable: false, drain_deadline: new Date(Date.now() - 1_000) } as const;
  await db().updateTable("node").set(gone).where("id", "=", edge.id).execute();
  await settle();
  expect((await rowOf()).drain).toBe("drained");
});

test("an edge that only an old view takes for current is not let in before it serves the newest table", async () => {
  await using router = await aRouter(link, edge, { generation: 5n });
  await until("it to be in", isIn);
  await db().updateTable("node").set({ schedulable: false }).where("id", "=", edge.id).execute();
  const meta = { generation: 6, digest: "", count: 0 };
  await world.etcd.txn({ guards: [], ops: [{ put: { key: keys.routesMeta, value: JSON.stringify(meta) } }] });
  const nodeLink = () => ({ link: "connected", since: new Date() }) as const;
  const old = { ...seen(), nodeLink, routesMeta: () => ({ generation: 5 }) };
  expect(await act("uncordon", old)).toMatchObject({ problem: expect.stringMatching(/old route table/) });
  expect(await isIn()).toBe(false);

  router.send({ case: "applied", value: { generation: 6n } });
  await until("etcd to have it", async () => {
    const applied = await world.read<EdgeAppliedValue>(keys.edgeApplied(edge.id));
    return applied?.generation === 6;
  });
  expect(await act("uncordon", old)).toMatchObject({ node: { schedulable: true } });
});
