import { systemClock } from "@svc/runtime/system";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createLog } from "../../log.ts";
import type { Etcd } from "../../stores/etcd/index.ts";
import { type EtcdServer, startEtcd, testClient, until } from "../../stores/etcd/testing.ts";
import { keys, type NodeSessionValue } from "./keys.ts";
import { openFleet } from "./testing.ts";

let server: EtcdServer;
let etcd: Etcd;
beforeAll(async () => {
  server = await startEtcd();
  etcd = testClient(server.endpoint);
});
afterAll(async () => {
  await etcd[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});

const put = (key: string, value: unknown) => etcd.txn({ ops: [{ put: { key, value: JSON.stringify(value) } }] });
const remove = (key: string) => etcd.txn({ ops: [{ delete: { key } }] });
const open = () => openFleet(etcd, { clock: systemClock, log: createLog("silent") });

const aSession = {
  serverId: "s1",
  instanceId: "i1",
  bootId: "b1",
  address: "10.0.0.7",
  capacity: { memoryMb: 1, cpuMillicores: 1, pids: 1, diskMb: 1 },
  platform: { os: "linux", architecture: "amd64" },
  version: "0.1.0",
  labels: {},
  connectedAt: "2026-01-01T12:00:00Z",
  reconciled: true,
  suspect: false,
  detached: false,
  takeovers: [],
  bootTookAt: null,
} satisfies NodeSessionValue;
const ofLaterVersion = { of: "a later version" };

test("what was so when a replica began to watch is as old as that, and what changes later is younger", async () => {
  await put(keys.server("s1"), { serverId: "s1", startedAt: "2026-01-01T12:00:00Z" });
  await put(keys.nodeSession("before"), aSession);
  await using fleet = await open();
  expect(fleet.nodeLink("before")).toEqual({ link: "connected", since: fleet.lookingSince });
  expect(fleet.wasAwayAtFirst("later")).toBe(true);
  await put(keys.nodeSession("later"), aSession);
  await until("connected", () => fleet.nodeLink("later").link === "connected");
  expect(fleet.nodeLink("later").since.getTime()).toBeGreaterThan(fleet.lookingSince.getTime());
  await remove(keys.nodeSession("later"));
  await until("gone", () => fleet.nodeLostAt("later"));
  expect(fleet.wasAwayAtFirst("later")).toBe(false);
});

test("a node whose session this version cannot read is as one without, and a stream of it is not taken for lost just now", async () => {
  await put(keys.server("s1"), { serverId: "s1", startedAt: "2026-01-01T12:00:00Z" });
  await put(keys.nodeSession("at-first"), ofLaterVersion);
  await using fleet = await open();
  let heard = 0;
  using _ = fleet.onChange("nodes", () => (heard += 1));
  await put(keys.nodeSession("since"), ofLaterVersion);
  await until("the key is seen", () => heard > 0);
  for (const id of ["at-first", "since"]) {
    expect(fleet.nodeSession(id)).toBeNull();
    expect(fleet.nodeLostAt(id)).toEqual(fleet.lookingSince);
    expect(fleet.wasAwayAtFirst(id)).toBe(true);
  }
  expect(fleet.staleSessions()).toEqual([]);
});

test("a table with a route that cannot be read tells of all others", async () => {
  await using fleet = await open();
  await etcd.txn({
    ops: [
      { put: { key: keys.route("a.test"), value: `{"host":"a.test","projectId":"p1","channel":"production"}` } },
      { put: { key: keys.route("bad.test"), value: "{" } },
      { put: { key: keys.routesMeta, value: `{"generation":3,"digest":"d","count":2}` } },
    ],
  });
  await until("the table is seen", () => fleet.routesMeta().generation === 3);
  expect([...fleet.routeTable().keys()]).toEqual(["a.test"]);
  expect(fleet.route("bad.test")).toBeNull();
  expect([fleet.isRouted("p1"), fleet.isRouted("p2")]).toEqual([true, false]);
});
