import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { requireLeader } from "./connection.ts";
import { createView, type Etcd, type Op } from "./index.ts";
import { type EtcdServer, impatientClient, startEtcd, testClient, until } from "./testing.ts";
import { startProxy } from "./testing-proxy.ts";

let server: EtcdServer;
let etcd: Etcd;

beforeAll(async () => {
  server = await startEtcd();
  etcd = testClient(server.endpoint);
});
afterAll(async () => {
  await etcd.close();
  await server[Symbol.asyncDispose]();
});

const put = (key: string, value: string): Op => ({ put: { key, value } });
const del = (key: string): Op => ({ delete: { key } });
const asNumber = (_key: string, value: string) => {
  const number = Number(value);
  if (Number.isNaN(number)) throw new Error("not a number");
  return number;
};

/** A view of numbers with the lines of its changes. */
function numbers(client: Etcd, prefix: string) {
  const view = createView(client, prefix, asNumber);
  onTestFinished(() => view.close());
  const lines: string[] = [];
  view.subscribe((changes) => {
    for (const change of changes) {
      const key = change.key.slice(prefix.length);
      lines.push(
        change.type === "put" ? `${key}: ${change.previous} -> ${change.value}` : `${key}: ${change.previous} gone`,
      );
    }
  });
  return { view, lines };
}

it("keeps the values and tells changes with what was before", async () => {
  await etcd.txn({ ops: [put("/v/a", "1")] });
  const { view, lines } = numbers(etcd, "/v/");
  await view.ready();
  expect([...view.entries()]).toEqual([["/v/a", 1]]);
  const { revision } = await etcd.txn({ ops: [put("/v/a", "2"), put("/v/b", "3")] });
  await etcd.txn({ ops: [del("/v/a")] });
  await view.waitFor(() => view.revision > revision, 60_000);
  expect(lines).toEqual(["a: undefined -> 1", "a: 1 -> 2", "b: undefined -> 3", "a: 2 gone"]);
  expect([view.get("/v/a"), view.get("/v/b")]).toEqual([undefined, 3]);
});

it("tells only real changes after a compaction during an outage", async () => {
  await using proxy = await startProxy(server.port);
  await using client = impatientClient(proxy.endpoint);
  await etcd.txn({ ops: [put("/c/same", "1"), put("/c/changed", "1"), put("/c/gone", "1")] });
  const { view, lines } = numbers(client, "/c/");
  await view.ready();
  lines.length = 0;
  proxy.refuse();
  await etcd.txn({ ops: [put("/c/changed", "2"), put("/c/new", "1")] });
  await etcd.txn({ ops: [put("/c/changed", "3")] });
  const { revision } = await etcd.txn({ ops: [del("/c/gone")] });
  const { kv } = etcd.connection.member();
  await new Promise<void>((resolve, reject) => {
    kv.compact({ revision }, requireLeader, {}, (error) => (error ? reject(error) : resolve()));
  });
  proxy.heal();
  await view.waitFor(() => view.revision >= revision, 60_000);
  expect(lines.toSorted()).toEqual(["changed: 1 -> 3", "gone: 1 gone", "new: undefined -> 1"]);
});

it("a value that does not decode counts as absent, until it does", async () => {
  await etcd.txn({ ops: [put("/d/a", "1"), put("/d/b", "broken")] });
  const { view, lines } = numbers(etcd, "/d/");
  await view.ready();
  expect([...view.entries()]).toEqual([["/d/a", 1]]);
  await etcd.txn({ ops: [put("/d/b", "2"), put("/d/a", "broken")] });
  await view.waitFor(() => view.get("/d/b"), 60_000);
  expect([...view.entries()]).toEqual([["/d/b", 2]]);
  expect(lines).toEqual(["a: undefined -> 1", "b: undefined -> 2", "a: 1 gone"]);
});

it("a subscriber that fails does not keep the others from hearing", async () => {
  const view = createView(etcd, "/s/", asNumber);
  onTestFinished(() => view.close());
  view.subscribe(() => {
    throw new Error("cannot take it");
  });
  const heard: number[] = [];
  const subscription = view.subscribe((changes) => void heard.push(changes.length));
  await view.ready();
  await etcd.txn({ ops: [put("/s/a", "1"), put("/s/b", "1")] });
  await view.waitFor(() => view.get("/s/b"), 60_000);
  subscription[Symbol.dispose]();
  await etcd.txn({ ops: [put("/s/a", "2")] });
  await view.waitFor(() => view.get("/s/a") === 2, 60_000);
  expect(heard).toEqual([2]);
});

it("waiting ends with the value, the time limit, the signal, or the view", async () => {
  const { view } = numbers(etcd, "/w/");
  await view.ready();
  const stop = new AbortController();
  const found = view.waitFor(() => view.get("/w/a"), 60_000);
  const late = view.waitFor(() => view.get("/w/never"), 50);
  const stopped = view.waitFor(() => view.get("/w/never"), 5_000, stop.signal);
  const closed = view.waitFor(() => view.get("/w/never"), 60_000);
  const all = Promise.allSettled([found, late, stopped, closed]);
  await etcd.txn({ ops: [put("/w/a", "7")] });
  await found;
  stop.abort(new Error("enough"));
  await until("the time limit", () =>
    late.then(
      () => false,
      () => true,
    ),
  );
  await view.close();
  expect(await all).toMatchObject([
    { value: 7 },
    { reason: { code: "TIMEOUT" } },
    { reason: { message: "enough" } },
    { reason: { code: "CLOSED" } },
  ]);
  await expect(view.ready()).rejects.toMatchObject({ code: "CLOSED" });
});

it("a view that never hears from etcd is not ready", async () => {
  await using proxy = await startProxy(server.port);
  proxy.refuse();
  await using client = impatientClient(proxy.endpoint);
  const { view } = numbers(client, "/n/");
  await expect(view.ready(100)).rejects.toMatchObject({ code: "TIMEOUT" });
  proxy.heal();
  await view.ready(5_000);
});
