// The x509 library registers its classes through this polyfill, so it has to come first.
import "reflect-metadata";
import { createHash, webcrypto } from "node:crypto";
import { mkdir, mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { connect, createSecureServer, type Http2SecureServer, type ServerHttp2Session } from "node:http2";
import { type AddressInfo, createServer as createTcpServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import * as x509 from "@peculiar/x509";
import { EdgeService } from "@svc/proto/edge";
import {
  DaemonRole,
  EnrollmentService,
  NodeService,
  type SessionRequest,
  type SessionRequestSchema,
  type SessionResponse,
} from "@svc/proto/node";
import { systemClock as clock, systemRandom as random } from "@svc/runtime/system";
import { fixedRandom } from "@svc/runtime/testing/random";
import { afterEach, beforeEach, expect, test } from "vitest";
import { certificateLife } from "./certificate.ts";
import { createEndpoints } from "./endpoints.ts";
import { loadIdentity } from "./identity.ts";
import { JoinRefusedError, joinCluster } from "./join.ts";
import type { LinkLog } from "./log.ts";
import { renewLoop } from "./renew.ts";
import { runSession } from "./session.ts";
import { controlName, createTransport } from "./transport.ts";

const quiet = { info: () => {}, warn: () => {} };
const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
const hourMs = 3_600_000;

/** A cluster CA that signs server and daemon certificates, as control does. */
async function createAuthority(clusterId: string) {
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const root = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: "01",
    name: "CN=test cluster",
    notBefore: new Date(Date.now() - hourMs),
    notAfter: new Date(Date.now() + 24 * hourMs),
    signingAlgorithm: algorithm,
    keys,
    extensions: [new x509.BasicConstraintsExtension(true, 0, true)],
  });
  let serial = 1;
  const sign = async (publicKey: x509.PublicKeyType, name: { type: "dns" | "url"; value: string }, lifeMs: number) => {
    serial += 1;
    const leaf = await x509.X509CertificateGenerator.create({
      serialNumber: serial.toString(16).padStart(2, "0"),
      subject: "CN=leaf",
      issuer: root.subject,
      notBefore: new Date(Date.now() - hourMs),
      notAfter: new Date(Date.now() + lifeMs),
      signingAlgorithm: algorithm,
      publicKey,
      signingKey: keys.privateKey,
      extensions: [new x509.SubjectAlternativeNameExtension([name])],
    });
    return leaf.toString("pem");
  };
  const serverKeys = await webcrypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const pkcs8 = await webcrypto.subtle.exportKey("pkcs8", serverKeys.privateKey);
  return {
    clusterId,
    caPem: root.toString("pem"),
    caSha256: createHash("sha256").update(new Uint8Array(root.rawData)).digest("hex"),
    serverCertificate: await sign(serverKeys.publicKey, { type: "dns", value: controlName }, hourMs),
    serverKey: x509.PemConverter.encode(pkcs8, "PRIVATE KEY"),
    signDaemon: async (csr: Uint8Array, id: string, lifeMs: number) => {
      const request = new x509.Pkcs10CertificateRequest(new Uint8Array(csr));
      return sign(request.publicKey, { type: "url", value: `spiffe://${clusterId}/node/${id}/1` }, lifeMs);
    },
  };
}

type Authority = Awaited<ReturnType<typeof createAuthority>>;
interface Control {
  url: string;
  requests: Buffer[];
  said: SessionRequest["message"]["case"][];
  sessions: Set<ServerHttp2Session>;
  loseReplies: number;
  refuse: boolean;
  server: Http2SecureServer;
}

async function startControl(authority: Authority): Promise<Control> {
  const state: Omit<Control, "url" | "server"> = {
    requests: [],
    said: [],
    sessions: new Set(),
    loseReplies: 0,
    refuse: false,
  };
  const handler = connectNodeAdapter({
    routes: (router) => {
      router.service(EnrollmentService, {
        async join(request) {
          if (state.refuse) throw new ConnectError("the token was used", Code.PermissionDenied);
          state.requests.push(Buffer.from(request.csr));
          const certificateChain = await authority.signDaemon(request.csr, "n1", 30 * 24 * hourMs);
          if (state.loseReplies > 0) {
            state.loseReplies -= 1;
            for (const session of state.sessions) session.destroy();
          }
          const { clusterId, caPem: ca } = authority;
          return { id: "n1", name: "one", role: DaemonRole.NODE, clusterId, incarnation: 1n, certificateChain, ca };
        },
      });
      router.service(NodeService, {
        async *session(requests) {
          yield { message: { case: "welcome", value: { nodeId: "n1", renewEveryMs: 20, leaseTtlMs: 5_000 } } };
          for await (const { message } of requests) {
            state.said.push(message.case);
            if (message.case === "renew") yield { message: { case: "renewAck", value: { n: message.value.n } } };
          }
        },
        async renewCertificate(request) {
          return { certificateChain: await authority.signDaemon(request.csr, "n1", 30 * 24 * hourMs), ca: "" };
        },
      });
    },
  });
  const server = createSecureServer(
    {
      key: authority.serverKey,
      cert: `${authority.serverCertificate}\n${authority.caPem}`,
      ca: authority.caPem,
      requestCert: true,
      rejectUnauthorized: false,
    },
    handler,
  );
  server.on("session", (session) => {
    state.sessions.add(session);
    session.on("close", () => state.sessions.delete(session));
    session.on("error", () => {});
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return Object.assign(state, { url: `https://127.0.0.1:${port}`, server });
}

async function until(condition: () => boolean, timeoutMs = 10_000): Promise<void> {
  const endsAt = Date.now() + timeoutMs;
  while (!condition()) {
    if (Date.now() > endsAt) throw new Error("the condition did not come true in time");
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

let dir: string;
let authority: Authority;
let control: Control;
const stop = { current: new AbortController() };

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "svc-link-"));
  authority = await createAuthority("c1");
  control = await startControl(authority);
  stop.current = new AbortController();
});

afterEach(async () => {
  stop.current.abort();
  for (const session of control.sessions) session.destroy();
  await new Promise((resolve) => control.server.close(resolve));
  await rm(dir, { recursive: true, force: true });
});

function enrol(changes: { caSha256?: string; urls?: string[]; log?: LinkLog } = {}) {
  return joinCluster({
    clock,
    random,
    dir,
    enrollUrls: changes.urls ?? [control.url],
    token: `svcn1.c1.${changes.caSha256 ?? authority.caSha256}.t1.${"0".repeat(32)}`,
    proposedName: "one",
    signal: stop.current.signal,
    log: changes.log ?? quiet,
  });
}

test("a daemon joins once and finds its identity again, readable by nobody else", async () => {
  const identity = await enrol();
  expect(identity).toMatchObject({ id: "n1", role: "node", clusterId: "c1", incarnation: 1n });
  expect(await loadIdentity(dir)).toEqual(identity);
  expect(await readdir(dir)).toEqual(["identity.json"]);
  expect((await stat(join(dir, "identity.json"))).mode & 0o777).toBe(0o600);
  expect(await enrol()).toEqual(identity);
  expect(control.requests).toHaveLength(1);
});

test("a lost reply is repeated with the same key", async () => {
  control.loseReplies = 2;
  await enrol();
  expect(control.requests).toHaveLength(3);
  expect(new Set(control.requests.map((csr) => csr.toString("hex"))).size).toBe(1);
});

test("a disk that takes nothing is waited for", async () => {
  const inTheWay = join(dir, "enrolment.json");
  await mkdir(inTheWay);
  let failures = 0;
  const warn = () => {
    failures += 1;
  };
  const joining = enrol({ log: { ...quiet, warn } });
  await until(() => failures > 0);
  await rm(inTheWay, { recursive: true });
  expect(await joining).toMatchObject({ id: "n1" });
});

test("a server with another CA never sees the token", async () => {
  await expect(enrol({ caSha256: "0".repeat(64) })).rejects.toThrow(JoinRefusedError);
  expect(control.requests).toHaveLength(0);
});

test("a refused token is final", async () => {
  control.refuse = true;
  await expect(enrol()).rejects.toThrow("the token was used");
});

test("a session is renewed, and opens again after the server dropped the connection", async () => {
  const endpoints = createEndpoints([control.url], random);
  const link = createTransport(clock, await enrol(), endpoints);
  const client = createClient(NodeService, link.transport);
  let welcomes = 0;
  const running = runSession<MessageInitShape<typeof SessionRequestSchema>, SessionResponse>({
    clock,
    random,
    endpoints,
    connect: (requests, signal) => client.session(requests, { signal }),
    onOpen: (send) => void send({ message: { case: "hello", value: {} } }),
    onMessage: ({ message }) => {
      if (message.case === "welcome") welcomes += 1;
    },
    onClose: () => {},
    renew: (n) => ({ message: { case: "renew", value: { n } } }),
    signal: stop.current.signal,
    log: quiet,
  });
  await until(() => control.said.filter((kind) => kind === "renew").length >= 2);
  for (const session of control.sessions) session.destroy();
  await until(() => welcomes === 2 && control.said.filter((kind) => kind === "hello").length === 2);
  stop.current.abort();
  await running;
  link.close();
});

/** Another replica of the same cluster; when it dies nobody listens on its port any more. */
async function anotherControl() {
  const other = await startControl(authority);
  return {
    ...other,
    async die() {
      const closed = new Promise((resolve) => other.server.close(resolve));
      for (const session of other.sessions) session.destroy();
      await closed;
    },
  };
}

/** Accepts connections and never says a word, as a process that was stopped. */
async function aFrozenControl() {
  const sockets = new Set<Socket>();
  const server = createTcpServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `https://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

test("with one of two replicas dead, its session and every call go to the other", async () => {
  const other = await anotherControl();
  const identity = await enrol();
  const endpoints = createEndpoints([other.url, control.url], fixedRandom(0));
  const [link, bulk] = [createTransport(clock, identity, endpoints), createTransport(clock, identity, endpoints)];
  const csr = Uint8Array.from(control.requests[0] ?? []);
  const renew = () => createClient(NodeService, bulk.transport).renewCertificate({ csr });
  let welcomes = 0;
  const running = runSession<MessageInitShape<typeof SessionRequestSchema>, SessionResponse>({
    clock,
    random,
    endpoints,
    connect: (requests, signal) => createClient(NodeService, link.transport).session(requests, { signal }),
    onOpen: (send) => void send({ message: { case: "hello", value: {} } }),
    onMessage: ({ message }) => {
      if (message.case === "welcome") welcomes += 1;
    },
    onClose: () => {},
    signal: stop.current.signal,
    log: quiet,
  });
  await until(() => welcomes === 1 && other.said.length === 1);
  expect((await renew()).certificateChain).toContain("CERTIFICATE");
  expect([other.said.length, control.said.length]).toEqual([1, 0]);

  await other.die();
  // Nobody has to wait for the session to notice.
  expect((await renew()).certificateChain).toContain("CERTIFICATE");
  await until(() => welcomes === 2 && control.said.includes("hello"));
  expect(endpoints.current()).toBe(control.url);
  stop.current.abort();
  await running;
  link.close();
  bulk.close();
});

test("a replica that stands still holds nobody up for long", async () => {
  await using frozen = await aFrozenControl();
  const identity = await enrol();
  const endpoints = createEndpoints([frozen.url, control.url], fixedRandom(0));
  const link = createTransport(clock, identity, endpoints);
  const client = createClient(NodeService, link.transport);
  const startedAt = performance.now();
  const csr = Uint8Array.from(control.requests[0] ?? []);
  expect((await client.renewCertificate({ csr })).certificateChain).toContain("CERTIFICATE");
  // Five seconds for the connection; pings alone would take fifteen.
  expect(performance.now() - startedAt).toBeLessThan(14_000);
  expect(endpoints.current()).toBe(control.url);
  link.close();
});

test("what control itself refuses is not asked of another replica", async () => {
  const other = await anotherControl();
  const endpoints = createEndpoints([control.url, other.url], fixedRandom(0));
  const link = createTransport(clock, await enrol(), endpoints);
  // This server admits nobody by this service, with any certificate.
  await expect(createClient(EdgeService, link.transport).renewCertificate({})).rejects.toMatchObject({
    code: Code.Unimplemented,
  });
  expect(endpoints.current()).toBe(control.url);
  link.close();
  await other.die();
});

test("a connection that breaks when it was given up ends nothing else", async () => {
  const server = createTcpServer((socket) => socket.once("data", () => socket.resetAndDestroy()));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  // As the transport's library opens them. Nobody listens to this one's error, which would end the process.
  const connection = connect(`https://127.0.0.1:${port}`);
  await new Promise<void>((resolve) => connection.once("close", resolve));
  expect(connection.destroyed).toBe(true);
  await new Promise((resolve) => server.close(resolve));
});

test("of several places to enrol at, one that answers is enough", async () => {
  await using frozen = await aFrozenControl();
  const other = await anotherControl();
  await other.die();
  const urls = [other.url, control.url, frozen.url];
  expect(await enrol({ urls })).toMatchObject({ id: "n1" });
});

test("a certificate past its time is renewed with a new key", async () => {
  const identity = await enrol();
  // An hour of back-dating against ten seconds to come: 80 % of its life is over.
  const short = { ...identity, certificatePem: await shortCertificate(10_000) };
  const link = createTransport(clock, identity, createEndpoints([control.url], random));
  const client = createClient(NodeService, link.transport);
  const renewed = new Promise<string>((resolve) => {
    void renewLoop({
      clock,
      random,
      dir,
      identity: short,
      renew: (csr, signal) => client.renewCertificate({ csr }, { signal }),
      onRenewed: (fresh) => resolve(fresh.certificatePem),
      signal: stop.current.signal,
      log: quiet,
    });
  });
  const certificatePem = await renewed;
  const kept = await loadIdentity(dir);
  expect(kept?.certificatePem).toBe(certificatePem);
  expect(kept?.privateKeyPem).not.toBe(identity.privateKeyPem);
  expect(certificateLife(certificatePem).untilMs).toBeGreaterThan(Date.now() + hourMs);
  link.close();
});

async function shortCertificate(lifeMs: number): Promise<string> {
  const [csr] = control.requests;
  if (csr === undefined) throw new Error("nobody has joined yet");
  return authority.signDaemon(csr, "n1", lifeMs);
}
