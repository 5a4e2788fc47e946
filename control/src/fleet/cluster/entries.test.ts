import { describe, expect, test } from "vitest";
import { decodeEdge, decodeNode, decodeRoute } from "./entries.ts";
import { keys } from "./keys.ts";

const session = {
  serverId: "s1",
  instanceId: "i1",
  bootId: "b1",
  address: "10.0.0.7",
  version: "0.1.0",
  connectedAt: "2026-01-01T12:00:00Z",
};
const nodeSession = {
  ...session,
  capacity: { memoryMb: 1, cpuMillicores: 1, pids: 1, diskMb: 1 },
  platform: { os: "linux", architecture: "amd64" },
  labels: {},
  reconciled: true,
};
const applied = { generation: 7, digest: "d", error: null, behindHosts: [], at: "2026-01-01T12:00:00Z" };
const route = { host: "a.test", projectId: "p", channel: "production", proxy: { upstreams: ["10.0.0.7:1"] } };

const anEntry = (key: string, value: string) => ({ key, value, createRevision: 3n, modRevision: 5n, leaseId: 0n });

/** Decodes, and tells how many parts could not be read. */
function decoded<T>(decode: typeof decodeNode | typeof decodeEdge | typeof decodeRoute, key: string, value: string) {
  const problems: unknown[] = [];
  const result = decode(anEntry(key, value), (entry) => void problems.push(entry.key)) as T;
  return { result, problems };
}

describe("what is kept of a key", () => {
  const written = JSON.stringify(nodeSession);
  const later = JSON.stringify({ of: "a later version" });
  test.each([
    {
      when: "a node's session",
      ...{ decode: decodeNode, key: keys.nodeSession("n1"), value: written, unread: false },
      kept: { value: written, modRevision: 5n, session: { ...nodeSession, suspect: false, detached: false } },
    },
    {
      when: "a node's session of which this version knows nothing: still whose it is",
      ...{ decode: decodeNode, key: keys.nodeSession("n1"), value: later, unread: true },
      kept: { value: later, modRevision: 5n, session: null },
    },
    {
      when: "a session that is no JSON",
      ...{ decode: decodeNode, key: keys.nodeSession("n1"), value: "{", unread: true },
      kept: { value: "{", modRevision: 5n, session: null },
    },
    {
      when: "a router's session",
      ...{ decode: decodeEdge, key: keys.edgeSession("e1"), value: JSON.stringify(session), unread: false },
      kept: { session: { ...session, detached: false }, applied: null },
    },
    {
      when: "a router's session of which this version knows nothing: still whose it is",
      ...{ decode: decodeEdge, key: keys.edgeSession("e1"), value: later, unread: true },
      kept: { value: later, modRevision: 5n, session: null, applied: null },
    },
    {
      when: "what a router serves",
      ...{ decode: decodeEdge, key: keys.edgeApplied("e1"), value: JSON.stringify(applied), unread: false },
      kept: { session: null, applied },
    },
    {
      when: "what a router serves, in words that this version does not know",
      ...{ decode: decodeEdge, key: keys.edgeApplied("e1"), value: later, unread: true },
      kept: { session: null, applied: null },
    },
    {
      when: "a route",
      ...{ decode: decodeRoute, key: keys.route("a.test"), value: JSON.stringify(route), unread: false },
      kept: { kind: "route", host: "a.test", json: JSON.stringify(route), entry: route, modRevision: 5n },
    },
    {
      when: "a route that is no JSON: still one host of the table",
      ...{ decode: decodeRoute, key: keys.route("a.test"), value: "{", unread: true },
      kept: { kind: "route", host: "a.test", json: "{", entry: null, modRevision: 5n },
    },
    {
      when: "what the table is",
      ...{ decode: decodeRoute, key: keys.routesMeta, value: `{"generation":7,"digest":"d","count":1}`, unread: false },
      kept: { kind: "meta", meta: { generation: 7, digest: "d", count: 1 }, modRevision: 5n },
    },
  ])("$when", ({ decode, key, value, unread, kept }) => {
    const { result, problems } = decoded(decode, key, value);
    expect(result).toMatchObject(kept);
    expect(problems).toEqual(unread ? [key] : []);
  });

  test("nothing of a meta key that cannot be read: there is no table then", () => {
    expect(() => decoded(decodeRoute, keys.routesMeta, "{}")).toThrow();
  });
});
