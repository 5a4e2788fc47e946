import { fromJsonString, toJson } from "@bufbuild/protobuf";
import { RouteSchema } from "@svc/proto/edge";
import { canonicalJson } from "@svc/runtime/canonical-json";
import { describe, expect, test } from "vitest";
import type { RouteEntry } from "../cluster/route-entry.ts";
import {
  applyChange,
  type Container,
  type HostFacts,
  isUnrecorded,
  routeOf,
  tableChange,
  targetOf,
  upstreamsOf,
} from "./table.ts";

const aHost = (change: Partial<HostFacts> = {}): HostFacts => ({
  host: "shop.svc.localhost",
  projectId: "p1",
  channel: "production",
  redirectTo: null,
  gate: null,
  hsts: null,
  suspended: false,
  stopped: false,
  active: { deploymentId: "d1", kind: "image", upstreams: ["127.0.1.1:40000"], entrances: [], isOver: false },
  ...change,
});
const proxied: RouteEntry = {
  host: "shop.svc.localhost",
  projectId: "p1",
  channel: "production",
  deploymentId: "d1",
  proxy: { upstreams: ["127.0.1.1:40000"] },
};

test("an entry is the same text after edges have read it", () => {
  for (const hsts of [
    { maxAgeSeconds: 0, includeSubdomains: false },
    { maxAgeSeconds: 300, includeSubdomains: true },
  ]) {
    const entry = routeOf(aHost({ hsts, gate: "abcdefghijk" }), undefined);
    const read = fromJsonString(RouteSchema, JSON.stringify(entry));
    expect(canonicalJson(toJson(RouteSchema, read))).toBe(canonicalJson(entry));
  }
});

describe("routeOf", () => {
  test.each<{ when: string; facts: HostFacts; previous?: RouteEntry | undefined; serves: Partial<RouteEntry> }>([
    { when: "a container answers", facts: aHost(), serves: { proxy: { upstreams: ["127.0.1.1:40000"] } } },
    {
      when: "one of its containers is behind an entrance",
      facts: aHost({
        active: {
          deploymentId: "d1",
          kind: "image",
          upstreams: ["10.0.0.8:2", "10.0.0.7:1"],
          entrances: ["10.0.0.7:1"],
          isOver: false,
        },
      }),
      serves: { proxy: { upstreams: ["10.0.0.7:1", "10.0.0.8:2"], entrances: ["10.0.0.7:1"] } },
    },
    {
      when: "browsers are to use TLS alone",
      facts: aHost({ hsts: { maxAgeSeconds: 300, includeSubdomains: true } }),
      serves: { hsts: { maxAgeSeconds: 300, includeSubdomains: true } },
    },
    {
      when: "browsers are to forget that, also at a host that redirects",
      facts: aHost({ hsts: { maxAgeSeconds: 0, includeSubdomains: false }, redirectTo: "other.svc.localhost" }),
      serves: { hsts: { maxAgeSeconds: 0 }, redirect: { host: "other.svc.localhost" } },
    },
    { when: "nothing was deployed", facts: aHost({ active: null }), serves: { page: { page: "PAGE_EMPTY" } } },
    { when: "the site is stopped", facts: aHost({ stopped: true }), serves: { page: { page: "PAGE_STOPPED" } } },
    {
      when: "the project is suspended, stopped or not",
      facts: aHost({ suspended: true, stopped: true }),
      serves: { page: { page: "PAGE_SUSPENDED" } },
    },
    {
      when: "its container is away for a moment",
      facts: aHost({ active: { deploymentId: "d1", kind: "image", upstreams: [], entrances: [], isOver: false } }),
      previous: proxied,
      serves: { proxy: { upstreams: ["127.0.1.1:40000"] } },
    },
    {
      when: "its container has ended for good, and the port may be another site's",
      facts: aHost({ active: { deploymentId: "d1", kind: "image", upstreams: [], entrances: [], isOver: true } }),
      previous: proxied,
      serves: { page: { page: "PAGE_DOWN" } },
    },
    {
      when: "a new deployment has no container yet",
      facts: aHost({ active: { deploymentId: "d2", kind: "image", upstreams: [], entrances: [], isOver: false } }),
      previous: proxied,
      serves: { page: { page: "PAGE_DOWN" } },
    },
    {
      when: "its project was resumed a moment ago, and its container has not been heard of",
      facts: aHost({ active: { deploymentId: "d1", kind: "image", upstreams: [], entrances: [], isOver: false } }),
      previous: routeOf(aHost({ suspended: true }), proxied),
      serves: { page: { page: "PAGE_DOWN" } },
    },
    {
      when: "it is a static site",
      facts: aHost({
        active: { deploymentId: "d1", kind: "bundle", repository: "r", digest: "sha256:1", sizeBytes: 7, spa: true },
      }),
      serves: { static: { repository: "r", digest: "sha256:1", sizeBytes: "7", spa: true } },
    },
    {
      when: "another host took its place, whatever becomes of the site",
      facts: aHost({ redirectTo: "store.svc.localhost", suspended: true, stopped: true }),
      previous: proxied,
      serves: { redirect: { host: "store.svc.localhost" } },
    },
  ])("when $when", ({ facts, previous, serves }) => {
    const entry = routeOf(facts, previous);
    expect(entry).toMatchObject(serves);
    const { proxy, static: bundle, page, redirect } = entry;
    expect([proxy, bundle, page, redirect].filter((target) => target !== undefined)).toHaveLength(1);
  });

  test("a host that redirects names no deployment, so that nothing waits for it to serve one", () => {
    const entry = routeOf(aHost({ redirectTo: "store.svc.localhost" }), proxied);
    expect(entry).toEqual({
      host: "shop.svc.localhost",
      projectId: "p1",
      channel: "production",
      redirect: { host: "store.svc.localhost" },
    });
  });
});

test.each([
  { when: "its site", facts: {} },
  { when: "a page of the platform", facts: { stopped: true } },
  { when: "a redirect", facts: { redirectTo: "store.svc.localhost" } },
])("a password guards a host that serves $when", ({ facts }) => {
  expect(routeOf(aHost({ ...facts, gate: "revision--1" }), undefined)).toMatchObject({ gate: "revision--1" });
  expect(routeOf(aHost(facts), undefined)).not.toHaveProperty("gate");
});

test("setting, changing and clearing a password change the entry and nothing else", () => {
  const guarded = aHost({ gate: "revision--1" });
  const { upserts } = tableChange(new Map([[proxied.host, proxied]]), [guarded]);
  expect(upserts).toEqual([{ ...proxied, gate: "revision--1" }]);
  const published = new Map(upserts.map((entry) => [entry.host, entry]));
  expect(tableChange(published, [guarded]).upserts).toEqual([]);
  expect(tableChange(published, [aHost({ gate: "revision--2" })]).upserts).toEqual([
    { ...proxied, gate: "revision--2" },
  ]);
  expect(tableChange(published, [aHost()]).upserts).toEqual([proxied]);
});

describe("targetOf", () => {
  test("is the same for two hosts of one deployment, and another for what is served otherwise", () => {
    const twin = { ...proxied, host: "store.svc.localhost" };
    expect(targetOf(twin)).toBe(targetOf(proxied));
    for (const other of [
      { ...proxied, deploymentId: "d2" },
      { ...proxied, proxy: { upstreams: ["127.0.1.1:40001"] } },
      routeOf(aHost({ active: null }), undefined),
      routeOf(aHost({ redirectTo: "store.svc.localhost" }), undefined),
    ])
      expect(targetOf(other)).not.toBe(targetOf(proxied));
  });
});

describe("tableChange", () => {
  test("says nothing when the table is as it should be", () => {
    expect(tableChange(new Map([[proxied.host, proxied]]), [aHost()])).toEqual({ upserts: [], removedHosts: [] });
  });

  test("removes hosts that nobody has any more", () => {
    expect(tableChange(new Map([[proxied.host, proxied]]), [])).toEqual({ upserts: [], removedHosts: [proxied.host] });
  });

  test("gives a host that comes in addition what the others of its deployment have, while its container is away", () => {
    const away = { deploymentId: "d1", kind: "image", upstreams: [], entrances: [], isOver: false } as const;
    const facts = [aHost({ active: away }), aHost({ host: "store.svc.localhost", active: away })];
    const { upserts } = tableChange(new Map([[proxied.host, proxied]]), facts);
    expect(upserts).toEqual([{ ...proxied, host: "store.svc.localhost" }]);
  });

  test("turns a redirect back into a site that is away for a moment", () => {
    const away = { deploymentId: "d1", kind: "image", upstreams: [], entrances: [], isOver: false } as const;
    const back = { ...proxied, host: "old.svc.localhost" };
    const published = [proxied, routeOf(aHost({ host: back.host, redirectTo: proxied.host }), undefined)];
    const facts = [aHost({ active: away }), aHost({ host: back.host, active: away })];
    expect(tableChange(new Map(published.map((entry) => [entry.host, entry])), facts).upserts).toEqual([back]);
  });

  test("applied, leaves nothing to change", () => {
    const facts = [
      aHost(),
      aHost({ host: "b.svc.localhost", active: null }),
      aHost({ host: "a.svc.localhost", stopped: true }),
    ];
    const table = applyChange(
      new Map([["old.svc.localhost", { ...proxied, host: "old.svc.localhost" }]]),
      tableChange(new Map(), facts),
    );
    const next = new Map(table.map((entry) => [entry.host, entry]));
    expect(tableChange(next, facts)).toEqual({ upserts: [], removedHosts: ["old.svc.localhost"] });
    expect(table.map(({ host }) => host)).toEqual([...table.map(({ host }) => host)].sort());
  });
});

test.each([
  { when: "knows where it is", serving: true, recordedOn: "n1", told: false },
  { when: "does not know of its place", serving: true, recordedOn: null, told: true },
  { when: "takes it to be elsewhere", serving: true, recordedOn: "n2", told: true },
  { when: "does not know of its place, and no edge is told of it", serving: false, recordedOn: null, told: false },
])("Postgres is told where a container is first: $told, when it $when", ({ serving, recordedOn, told }) => {
  expect(isUnrecorded({ serving }, "n1", recordedOn)).toBe(told);
});

describe("where visitors of several containers go", () => {
  const a = (upstream: string, change: Partial<Container> = {}): Container => ({
    ...{ upstream, isEntrance: false, serving: true, isOver: false, retiring: false, isStale: false },
    ...change,
  });
  test.each<{ when: string; containers: Container[]; upstreams: string[] }>([
    { when: "all are well", containers: [a("1"), a("2")], upstreams: ["1", "2"] },
    { when: "one does not answer", containers: [a("1", { serving: false }), a("2")], upstreams: ["2"] },
    { when: "nothing is heard of one's node", containers: [a("1", { isStale: true }), a("2")], upstreams: ["2"] },
    { when: "one is on its way out", containers: [a("1", { retiring: true }), a("2")], upstreams: ["2"] },
    { when: "nothing is heard of any", containers: [a("1", { isStale: true })], upstreams: ["1"] },
    {
      when: "one is on its way out, and nothing is heard of the other",
      containers: [a("1", { retiring: true }), a("2", { isStale: true })],
      upstreams: ["2"],
    },
    {
      when: "the one that took over has gone",
      containers: [a("1", { retiring: true }), a("2", { serving: false })],
      upstreams: ["1"],
    },
    { when: "one's node was fenced", containers: [a("1", { isOver: true, isStale: true })], upstreams: [] },
  ])("when $when", ({ containers, upstreams }) => {
    expect(upstreamsOf(containers).upstreams).toEqual(upstreams);
  });

  test("which of them are entrances is told of those alone where they go", () => {
    const behind = { isEntrance: true };
    const { upstreams, entrances } = upstreamsOf([a("1", behind), a("2"), a("3", { ...behind, serving: false })]);
    expect([upstreams, entrances]).toEqual([["1", "2"], ["1"]]);
  });

  test("nothing can come back once all have ended", () => {
    expect(upstreamsOf([a("1", { isOver: true }), a("2", { isOver: true })]).isOver).toBe(true);
    expect(upstreamsOf([a("1", { isOver: true }), a("2", { serving: false })]).isOver).toBe(false);
  });
});
