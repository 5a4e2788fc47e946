import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { spawnProgram, thisNode } from "@svc/runtime/programs";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  createAuthority,
  createClientCertificate,
  createServerCertificate,
  readRequest,
} from "../../fleet/ca/certificates.ts";
import { aCertificateRequest } from "../../fleet/ca/testing.ts";
import { createEtcd, EtcdError, openMembers, UnknownOutcome } from "./index.ts";
import { type EtcdServer, impatientClient, startEtcd, testClient, until } from "./testing.ts";
import { startProxy } from "./testing-proxy.ts";

let server: EtcdServer;

beforeAll(async () => {
  server = await startEtcd();
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

const put = (key: string, value: string) => ({ put: { key, value } });

describe("reading and writing", () => {
  it("returns what was written, with its revisions", async () => {
    await using etcd = testClient(server.endpoint);
    expect(await etcd.get("/rw/a")).toBeNull();
    const first = await etcd.txn({ guards: [{ key: "/rw/a", compare: "absent" }], ops: [put("/rw/a", "eins ✓")] });
    const second = await etcd.txn({
      guards: [{ key: "/rw/a", compare: "modRevision", value: first.revision }],
      ops: [put("/rw/a", "zwei"), { get: { key: "/rw/a" } }],
    });
    expect(second).toMatchObject({ succeeded: true, reads: [{ value: "zwei", createRevision: first.revision }] });
    const { entries } = await etcd.range("/rw/");
    expect(entries).toMatchObject([{ key: "/rw/a", value: "zwei", modRevision: second.revision }]);
  });

  it("a guard that does not hold changes nothing and tells what is there", async () => {
    await using etcd = testClient(server.endpoint);
    await etcd.txn({ ops: [put("/guard", "mine")] });
    const refused = await etcd.txn({
      guards: [{ key: "/guard", compare: "absent" }],
      ops: [put("/guard", "yours")],
      orElse: [{ get: { key: "/guard" } }],
    });
    expect(refused).toMatchObject({ succeeded: false, reads: [{ value: "mine" }] });
  });

  it("what etcd refuses is an error and not an unknown outcome", async () => {
    await using etcd = testClient(server.endpoint);
    await expect(etcd.txn({ ops: [{ put: { key: "/l", value: "", leaseId: 4711n } }] })).rejects.toMatchObject({
      name: "EtcdError",
      code: "LEASE_NOT_FOUND",
    });
    await expect(etcd.txn({ ops: [put("/twice", "1"), put("/twice", "2")] })).rejects.toMatchObject({
      code: "REFUSED",
    });
  });

  it("a range of many pages is read at one revision, while it changes", async () => {
    await using etcd = testClient(server.endpoint);
    const keys = Array.from({ length: 2_400 }, (_, index) => `/page/${String(index).padStart(5, "0")}`);
    for (let at = 0; at < keys.length; at += 120) {
      await etcd.txn({ ops: keys.slice(at, at + 120).map((key) => put(key, "old")) });
    }
    const reading = etcd.range("/page/");
    const writing = etcd.txn({
      ops: [put("/page/00000", "new"), put("/page/02399", "new"), put("/page/99999", "new")],
    });
    const [{ entries, revision }, written] = await Promise.all([reading, writing]);
    const seen = revision >= written.revision ? "new" : "old";
    expect(entries).toHaveLength(seen === "new" ? 2_401 : 2_400);
    expect([entries[0]?.value, entries[2_399]?.value]).toEqual([seen, seen]);
  });

  it("a range whose pages are too large is read in smaller ones", async () => {
    await using etcd = testClient(server.endpoint);
    const value = "x".repeat(250_000);
    for (let index = 0; index < 80; index++) await etcd.txn({ ops: [put(`/large/${index}`, value)] });
    const { entries } = await etcd.range("/large/");
    expect(entries.map((entry) => entry.value.length)).toEqual(Array(80).fill(250_000));
  });

  it("serves many calls at once over one connection", async () => {
    await using proxy = await startProxy(server.port);
    await using etcd = testClient(proxy.endpoint);
    const results = await Promise.all(
      Array.from({ length: 300 }, (_, n) => etcd.txn({ ops: [put(`/many/${n}`, "v")] })),
    );
    expect(new Set(results.map(({ revision }) => revision)).size).toBe(300);
    expect(proxy.open).toBe(1);
  });
});

describe("when the way to etcd fails", () => {
  it("a transaction whose answer is lost is an unknown outcome, and reading back shows that it was applied", async () => {
    await using proxy = await startProxy(server.port);
    await using etcd = impatientClient(proxy.endpoint);
    await etcd.get("/");
    proxy.cutAt({ frame: 0, into: 0 });
    await expect(etcd.txn({ ops: [put("/lost", "op-1")] })).rejects.toBeInstanceOf(UnknownOutcome);
    expect(await etcd.get("/lost")).toMatchObject({ value: "op-1" });
  });

  it("a transaction that never arrived is an unknown outcome, and reading back shows that it was not", async () => {
    await using proxy = await startProxy(server.port);
    await using etcd = impatientClient(proxy.endpoint);
    await etcd.get("/");
    proxy.refuse();
    await expect(etcd.txn({ ops: [put("/never", "op-2")] })).rejects.toBeInstanceOf(UnknownOutcome);
    proxy.heal();
    expect(await etcd.get("/never")).toBeNull();
  });

  it("a transaction that is not answered ends at its deadline as an unknown outcome, in one attempt", async () => {
    await using proxy = await startProxy(server.port);
    await using direct = testClient(server.endpoint);
    await direct.txn({ ops: [put("/slow", "0")] });
    const attempts: (string | null)[] = [];
    await using etcd = testClient(proxy.endpoint, {
      timings: { callTimeoutMs: 300, pingIntervalMs: 60_000 },
      observer: { called: (_what, _durationMs, code) => void attempts.push(code), watchEnded: () => {} },
    });
    await until("the connection", () => etcd.get("/slow").catch(() => null));
    attempts.length = 0;
    proxy.blackHole();
    await expect(etcd.txn({ ops: [put("/slow", "1")] })).rejects.toThrow(UnknownOutcome);
    expect(attempts).toEqual(["TIMEOUT"]);
    proxy.heal();
    await until("calls pass again", () => etcd.get("/slow").catch(() => null));
  });

  it.each([0, 4, 12, 40])("a read survives a cut %i bytes into the answer", async (into) => {
    await using proxy = await startProxy(server.port);
    await using etcd = impatientClient(proxy.endpoint);
    await etcd.txn({ ops: [put("/cut", "whole")] });
    proxy.cutAt({ frame: 1, into });
    expect(await etcd.get("/cut")).toMatchObject({ value: "whole" });
    expect(proxy.cuts).toBe(1);
  });

  it("a read fails in bounded time when nobody answers", async () => {
    await using proxy = await startProxy(server.port);
    await using etcd = testClient(proxy.endpoint, { timings: { callTimeoutMs: 200 } });
    proxy.blackHole();
    await expect(etcd.get("/")).rejects.toMatchObject({ name: "EtcdError", code: "TIMEOUT" });
  });

  it("moves on to the next endpoint", async () => {
    await using first = await startProxy(server.port);
    await using second = await startProxy(server.port);
    await using etcd = impatientClient([first.endpoint, second.endpoint]);
    await etcd.txn({ ops: [put("/next", "v")] });
    expect([first.open, second.open]).toEqual([1, 0]);
    first.refuse();
    expect(await etcd.get("/next")).toMatchObject({ value: "v" });
    expect([first.open, second.open]).toEqual([0, 1]);
  });
});

describe("closing", () => {
  it("refuses further calls and closes the connection", async () => {
    await using proxy = await startProxy(server.port);
    const etcd = impatientClient(proxy.endpoint);
    await etcd.get("/");
    await etcd.close();
    await expect(etcd.get("/")).rejects.toMatchObject({ code: "CLOSED" });
    await expect(etcd.txn({ ops: [] })).rejects.toBeInstanceOf(EtcdError);
    await until("the socket is closed", () => proxy.open === 0);
  });

  it("ends calls that are on their way", async () => {
    await using proxy = await startProxy(server.port);
    const etcd = testClient(proxy.endpoint, { timings: { callTimeoutMs: 60_000 } });
    await etcd.get("/");
    proxy.blackHole();
    const outcomes = Promise.allSettled([etcd.get("/"), etcd.txn({ ops: [put("/end", "")] })]);
    await etcd.close();
    const [read, write] = await outcomes;
    expect(read).toMatchObject({ reason: { code: "CLOSED" } });
    expect(write).toMatchObject({ reason: { name: "UnknownOutcome" } });
  });

  it("leaves nothing that keeps a process alive, also when the server does not answer", async () => {
    await using proxy = await startProxy(server.port);
    const program = `
      const { createEtcd, createView, grantLease, campaign } = await import(${JSON.stringify(import.meta.resolve("./index.ts"))});
      const { systemClock: clock, systemRandom: random } = await import(${JSON.stringify(import.meta.resolve("@svc/runtime/system"))});
      const { default: pino } = await import(${JSON.stringify(import.meta.resolve("pino"))});
      const etcd = createEtcd({ clock, random, endpoints: [${JSON.stringify(proxy.endpoint)}], log: pino({ level: "silent" }) });
      const view = createView(etcd, "/exit/", (_key, value) => value);
      await view.ready();
      await grantLease(etcd, { ttlMs: 5000 });
      const stop = new AbortController();
      const leading = Promise.withResolvers();
      const campaigning = campaign({ etcd, key: "/exit-leader", id: "x", ttlMs: 5000, signal: stop.signal,
        lead: ({ signal }) => { leading.resolve(); return new Promise((done) => signal.addEventListener("abort", done)); } });
      await leading.promise;
      console.log("up");
      await new Promise((resolve) => process.stdin.once("data", resolve));
      process.stdin.destroy();
      void campaigning.then(() => console.log("stopped"));
      await etcd.close();
    `;
    const running = spawnProgram([thisNode, "--input-type=module", "-e", program], {
      stdio: ["pipe", "pipe", "inherit"],
      timeout: 10_000,
    });
    const ended = once(running, "close");
    let said = "";
    running.stdout.setEncoding("utf8").on("data", (text: string) => {
      said += text;
    });
    await until("the program is up", () => said.includes("up"));
    proxy.blackHole();
    running.stdin.write("end\n");
    expect(await ended).toEqual([0, null]);
    expect(said).toContain("stopped");
  });
});

/** An authority with a server called etcd.test and one client, as PEM. */
async function certificates() {
  const validity = () => ({
    notBefore: new Date(Date.now() - 3_600_000),
    notAfter: new Date(Date.now() + 3_600_000),
    serial: randomBytes(16),
  });
  const authority = await createAuthority("test", validity());
  const etcdServer = await createServerCertificate(authority, { hosts: ["etcd.test"], ...validity() });
  const request = await aCertificateRequest();
  const client = await createClientCertificate(authority, await readRequest(request.der), {
    uri: "spiffe://test/control",
    subject: "CN=control",
    ...validity(),
  });
  return { ca: authority.certificate, server: etcdServer, client: { cert: client, key: request.privateKeyPem } };
}

describe("over TLS", () => {
  it("talks to a server that asks for client certificates", async () => {
    const directory = await mkdtemp(join(tmpdir(), "svc-etcd-tls-"));
    const path = (name: string) => join(directory, name);
    try {
      const { ca, server: pair, client } = await certificates();
      await writeFile(path("ca"), ca);
      await writeFile(path("cert"), pair.certificate);
      await writeFile(path("key"), pair.privateKey, { mode: 0o600 });
      const flags = [
        "--client-cert-auth",
        "--trusted-ca-file",
        path("ca"),
        "--cert-file",
        path("cert"),
        "--key-file",
        path("key"),
      ];
      const tls = { ca, ...client, serverName: "etcd.test" };
      const trusted = (endpoint: string) => testClient(endpoint, { tls });
      await using secure = await startEtcd({ scheme: "https", flags, client: trusted });
      await using etcd = trusted(secure.endpoint);
      await etcd.txn({ ops: [put("/tls", "v")] });
      expect(await etcd.get("/tls")).toMatchObject({ value: "v" });
      await using stranger = impatientClient(secure.endpoint, { tls: { ca, serverName: "etcd.test" } });
      await expect(stranger.get("/tls")).rejects.toMatchObject({ code: "UNAVAILABLE" });
      // The same certificate, and no question for that of the client.
      await using careless = await startEtcd({ scheme: "https", flags: flags.slice(3), client: trusted });
      const both = [secure.endpoint, careless.endpoint];
      expect(await openMembers(systemClock, { endpoints: both, tls }, 5_000)).toEqual([careless.endpoint]);
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  });

  it("refuses an endpoint that is not a URL of etcd", () => {
    const { log } = testClient(server.endpoint).connection;
    const parts = { clock: systemClock, random: systemRandom };
    expect(() => createEtcd({ ...parts, endpoints: ["tcp://etcd.test:2379"], log })).toThrow(/not a http/);
    expect(() => createEtcd({ ...parts, endpoints: [], log })).toThrow(/at least one endpoint/);
  });
});
