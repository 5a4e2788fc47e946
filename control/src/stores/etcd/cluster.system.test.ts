import pino from "pino";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createView, grantLease } from "./index.ts";
import { type EtcdServer, impatientClient, startCluster, until } from "./testing.ts";

let servers: EtcdServer[];

beforeAll(async () => {
  servers = await startCluster(3);
});
afterAll(async () => {
  await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()));
});

it("a client outlives its member, and says so when the rest has no majority", async () => {
  const [first, second, third] = servers;
  if (first === undefined || second === undefined || third === undefined) throw new Error("three members");
  const told: string[] = [];
  const log = pino({ level: "debug" }, { write: (line: string) => void told.push(line) });
  await using etcd = impatientClient(
    servers.map(({ endpoint }) => endpoint),
    { log },
  );
  await using view = createView(etcd, "/c/", (_key, value) => value);
  const seen: string[] = [];
  view.subscribe((changes) => void seen.push(...changes.map(({ key }) => key)));
  await view.ready();
  // Longer than the others take to find a leader, also when they have to try again.
  await using lease = await grantLease(etcd, { ttlMs: 15_000 });
  // The guard makes it safe to repeat a write whose outcome is not known.
  const putOnce = (key: string) =>
    etcd.txn({ guards: [{ key, compare: "absent" }], ops: [{ put: { key, value: "" } }] }).catch(() => null);
  const write = (key: string) => until(`the write of ${key}`, () => putOnce(key));
  const shows = (key: string) => view.waitFor(() => seen.includes(key), 60_000);

  await write("/c/three");
  await first.kill();
  await write("/c/two");
  await shows("/c/two");
  const leftMs = lease.remainingMs();
  await until("the lease is renewed", () => lease.remainingMs() > leftMs);
  expect(lease.signal.aborted).toBe(false);

  // The last member still answers, but knows that it may not: a watch on it would never hear of anything again.
  await second.kill();
  await until("the watch ends for want of a leader", () => told.some((line) => /no leader.*watch/.test(line)));
  await expect(etcd.get("/c/two")).rejects.toMatchObject({ name: "EtcdError" });
  await second.start();
  await write("/c/back");
  await shows("/c/back");
  expect(seen).toEqual(["/c/three", "/c/two", "/c/back"]);
});
