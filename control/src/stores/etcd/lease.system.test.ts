import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { requireLeader } from "./connection.ts";
import { createView, type Etcd, grantLease, LeaseLost } from "./index.ts";
import { type EtcdServer, impatientClient, startEtcd, testClient, until } from "./testing.ts";
import { startProxy } from "./testing-proxy.ts";

let server: EtcdServer;
/** Sees what the server has, past the proxies. */
let observer: Etcd;

beforeAll(async () => {
  server = await startEtcd();
  observer = testClient(server.endpoint);
});
afterAll(async () => {
  await observer.close();
  await server[Symbol.asyncDispose]();
});

/** Of leases whose end is waited for: a machine that stands still for two seconds ends none that is renewed. */
const ttlMs = 4_000;

const lostAtMs = (signal: AbortSignal) =>
  new Promise<number>((resolve) => signal.addEventListener("abort", () => resolve(performance.now()), { once: true }));

/** Puts `key` under the lease and tells when the server deletes it. */
async function goneAtMs(key: string, leaseId: bigint): Promise<{ gone: Promise<number> }> {
  await observer.txn({ ops: [{ put: { key, value: "", leaseId } }] });
  const view = createView(observer, key, () => true);
  await view.ready();
  const gone = view.waitFor(() => view.get(key) === undefined && performance.now(), 60_000);
  return { gone: gone.finally(() => view.close()) };
}

// Each has its own way to the server and waits most of the time.
describe.concurrent("a lease", () => {
  it("is kept alive beyond its time to live, also over cuts", async () => {
    await using proxy = await startProxy(server.port);
    await using etcd = impatientClient(proxy.endpoint);
    const lease = await grantLease(etcd, { ttlMs });
    const startMs = performance.now();
    let cutAtMs = startMs;
    const halfAsLongAgain = () => {
      if (performance.now() - cutAtMs > 400) {
        proxy.cut();
        cutAtMs = performance.now();
      }
      return performance.now() - startMs > 1.5 * ttlMs;
    };
    await until("one and a half times the time to live", halfAsLongAgain, 3 * ttlMs);
    expect(lease.signal.aborted).toBe(false);
    expect(lease.remainingMs()).toBeGreaterThan(0);
    await lease.revoke();
    expect(lease.signal.reason).toBeInstanceOf(LeaseLost);
  });

  it("ends when revoked, long before its time", async () => {
    await using etcd = testClient(server.endpoint);
    const lease = await grantLease(etcd, { ttlMs: 60_000 });
    const { gone } = await goneAtMs("/lease/revoked", lease.id);
    await lease.revoke();
    expect(lease.signal.reason).toBeInstanceOf(LeaseLost);
    await gone;
  });

  it("is lost before the server ends it, whether the connection is refused or black-holed", async () => {
    const failing = (["refuse", "blackHole"] as const).map(async (fail) => {
      await using proxy = await startProxy(server.port);
      await using etcd = impatientClient(proxy.endpoint);
      const lease = await grantLease(etcd, { ttlMs });
      const { gone } = await goneAtMs(`/lease/${fail}`, lease.id);
      const lost = lostAtMs(lease.signal);
      proxy[fail]();
      // How long by the clock is for the tests of its rules: timers may be late, and the server is later still.
      expect(await lost).toBeLessThan(await gone);
      expect(lease.remainingMs()).toBe(0);
    });
    await Promise.all(failing);
  });

  it("counts from the moment of asking when the answer takes long", async () => {
    await using proxy = await startProxy(server.port);
    await using etcd = testClient(proxy.endpoint, { timings: { pingIntervalMs: 60_000 } });
    const givenMs = 6_000;
    const lease = await grantLease(etcd, { ttlMs: givenMs });
    const left = (moreThan: number, lessThan: number) =>
      until("time has passed", () => {
        const ms = lease.remainingMs();
        return ms > moreThan && ms < lessThan && ms;
      });
    // It asks when two of the six seconds have passed, and would try another way a second and a half later.
    await left(0, 4_100);
    proxy.blackHole();
    await left(0, 3_700);
    // All timers that are due by now run before this: it has asked.
    await new Promise((resolve) => setImmediate(resolve));
    const healedAtMs = performance.now();
    proxy.heal();
    await left(4_000, givenMs);
    // The holder's time is a hundredth shorter than the server's.
    expect(performance.now() + lease.remainingMs()).toBeLessThan(healedAtMs + 0.99 * givenMs);
  });

  it("is kept alive through another endpoint when one does not answer", async () => {
    await using first = await startProxy(server.port);
    await using second = await startProxy(server.port);
    await using etcd = testClient([first.endpoint, second.endpoint], { timings: { pingIntervalMs: 60_000 } });
    const lease = await grantLease(etcd, { ttlMs: 6_000 });
    first.blackHole();
    await until("it runs down", () => lease.remainingMs() < 3_600);
    await until("it is renewed", () => lease.remainingMs() > 4_000);
    expect(second.open).toBe(1);
  });
});

it("is lost, without any answer, when the server is frozen", async () => {
  const lease = await grantLease(observer, { ttlMs });
  const { gone } = await goneAtMs("/lease/frozen", lease.id);
  const lost = lostAtMs(lease.signal);
  server.freeze();
  try {
    await lost;
  } finally {
    server.thaw();
  }
  await gone;
});

it("is over for whoever asks right after the process stood still, and lost at the first tick", async () => {
  await using etcd = testClient(server.endpoint);
  const lease = await grantLease(etcd, { ttlMs });
  expect(lease.remainingMs()).toBeGreaterThan(0);
  // The whole thread stops, as under a long garbage collection: no timer and no socket is served.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ttlMs + 100);
  expect(lease.remainingMs()).toBe(0);
  await new Promise((resolve) => setImmediate(resolve));
  await until("lost", () => lease.signal.aborted, 100);
});

it("is lost as soon as the server says that it does not know it", async () => {
  const lease = await grantLease(observer, { ttlMs });
  await using other = testClient(server.endpoint);
  const lost = lostAtMs(lease.signal);
  await new Promise<void>((resolve, reject) => {
    const { lease: leases } = other.connection.member();
    leases.leaseRevoke({ ID: lease.id }, requireLeader, {}, (error) => (error ? reject(error) : resolve()));
  });
  await lost;
  // And not because it was not renewed in time.
  expect(lease.signal.reason).toMatchObject({ message: expect.stringContaining("the server does not know it") });
});

it("ends with its client", async () => {
  const etcd = testClient(server.endpoint);
  const lease = await grantLease(etcd, { ttlMs });
  await etcd.close();
  expect(lease.signal.aborted).toBe(true);
  expect(lease.remainingMs()).toBe(0);
  await lease.revoke();
});

it("cannot be had when etcd does not answer", async () => {
  await using proxy = await startProxy(server.port);
  proxy.refuse();
  await using etcd = impatientClient(proxy.endpoint);
  await expect(grantLease(etcd, { ttlMs })).rejects.toMatchObject({ code: "UNAVAILABLE" });
});
