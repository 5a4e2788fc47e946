import { connect as http2Connect } from "node:http2";
import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { type Client, createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import {
  type SessionRequestSchema as EdgeRequestSchema,
  type SessionResponse as EdgeResponse,
  EdgeService,
} from "@svc/proto/edge";
import {
  EnrollmentService,
  SessionRequestSchema as NodeRequestSchema,
  type SessionResponse as NodeResponse,
  NodeService,
  type Placement,
  PlacementSchema,
  type RunOffer,
  RunOfferSchema,
} from "@svc/proto/node";
import { systemClock, systemRandom } from "@svc/runtime/system";
import pino from "pino";
import { createListener, type Listener } from "../../stores/db/listen.ts";
import { type TestDatabase, testDatabase } from "../../stores/db/testing.ts";
import type { Etcd } from "../../stores/etcd/index.ts";
import { type EtcdServer, startEtcd, testClient, until } from "../../stores/etcd/testing.ts";
import { createSecrets } from "../../stores/secrets.ts";
import { aPlacementValue } from "../agents/builders.ts";
import { type Authority, openAuthority } from "../ca/authority.ts";
import { aCertificateRequest } from "../ca/testing.ts";
import { keys, type PlacementValue } from "../cluster/keys.ts";
import { watchCluster } from "../cluster/views.ts";
import { createBootstrapToken } from "../nodes/tokens.ts";
import type { LinkTimings } from "../sessions/timings.ts";
import { createTunnels } from "../tunnels/tunnels.ts";
import { type Link, type LinkDeps, startLink } from "./start.ts";

export { until };

const log = pino({ level: process.env["SVC_TEST_LOG_LEVEL"] ?? "silent" });
const fast: Partial<LinkTimings> = {
  statusWindowMs: 10,
  resyncMinMs: 20,
  resyncMaxMs: 200,
  helloTimeoutMs: 1_000,
  inventoryTimeoutMs: 1_000,
  stopGraceMs: 500,
  conditionWriteEveryMs: 20,
  volumesEveryMs: 20,
};

/** Stores and links of one test file. */
export interface World extends AsyncDisposable {
  database: TestDatabase;
  server: EtcdServer;
  etcd: Etcd;
  listener: Listener;
  authority: Authority;
  /** Starts another replica over the same stores. */
  startLink(overrides?: Partial<LinkDeps>): Promise<Link>;
  put(key: string, value: unknown): Promise<bigint>;
  remove(key: string): Promise<bigint>;
  read<T>(key: string): Promise<T | null>;
  place(nodeId: string, placementId: string, overrides?: Partial<PlacementValue>): Promise<bigint>;
}

export async function aWorld(): Promise<World> {
  const database = await testDatabase();
  const server = await startEtcd();
  const etcd = testClient(server.endpoint);
  const listener = createListener(systemClock, database.url, log);
  const authority = await openAuthority(database.db, createSecrets([Buffer.alloc(32, 1)]), {
    clock: systemClock,
    random: systemRandom,
  });
  const put = async (key: string, value: unknown) =>
    (await etcd.txn({ ops: [{ put: { key, value: JSON.stringify(value) } }] })).revision;
  await put(keys.leader, "somebody");
  let replicas = 0;
  return {
    ...{ database, server, etcd, listener, authority, put },
    remove: async (key) => (await etcd.txn({ ops: [{ delete: { key } }] })).revision,
    read: async <T>(key: string) => {
      const entry = await etcd.get(key);
      return entry === null ? null : (JSON.parse(entry.value) as T);
    },
    place: (nodeId, placementId, overrides = {}) =>
      put(keys.placement(nodeId, placementId), aPlacementValue(placementId, overrides)),
    startLink: async (overrides = {}) => {
      replicas += 1;
      await using stack = new AsyncDisposableStack();
      const views = stack.use(watchCluster(etcd, log));
      await views.ready();
      const started = await startLink({
        config: { linkListen: { host: "127.0.0.1", port: 0 }, enrollListen: { host: "127.0.0.1", port: 0 } },
        ...{ db: database.db, listener, etcd, views, authority, log },
        serverId: `replica-${replicas}`,
        registry: { host: "registry.test:5000", insecure: false },
        registryTokens: { forNode: async () => null, forEdge: () => null },
        clock: systemClock,
        random: systemRandom,
        loadPlacement: async (placementId) => aPlacement(placementId),
        loadRun: async (attemptId) => aRunOffer(attemptId),
        loadGates: async () => [],
        loadSalts: null,
        certificates: null,
        logBytesMax: async () => 1_000_000,
        baseImages: { fetch: async () => null },
        isCutOff: () => false,
        tunnels: createTunnels({ clock: systemClock, random: systemRandom, db: database.db }),
        // One daemon of a file may play many parts in a moment.
        ownRates: { hellos: { ratePerSecond: 1_000, burst: 1_000 } },
        ...overrides,
        timings: { ...fast, ...overrides.timings },
      });
      stack.use(started);
      const owned = stack.move();
      return {
        ...{ linkPort: started.linkPort, enrollPort: started.enrollPort },
        get sessions() {
          return started.sessions;
        },
        [Symbol.asyncDispose]: () => owned.disposeAsync(),
      };
    },
    async [Symbol.asyncDispose]() {
      await listener[Symbol.asyncDispose]();
      await etcd.close();
      await server[Symbol.asyncDispose]();
      await database[Symbol.asyncDispose]();
    },
  };
}

export const aPlacement = (placementId: string): Placement =>
  create(PlacementSchema, {
    placementId,
    specHash: "h1",
    spec: { case: "serve", value: { image: { reference: `registry.test:5000/app@${placementId}` }, env: { A: "1" } } },
  });

export const aRunOffer = (attemptId: string): RunOffer =>
  create(RunOfferSchema, { attemptId, command: "npm run migrate", timeoutSeconds: 60 });

/** What an enrolled daemon keeps. */
export interface DaemonFiles {
  id: string;
  name: string;
  certificate: string;
  privateKey: string;
  ca: string;
  /** Of a node: the one that it is bound to. */
  address: string;
}

interface Connection extends Disposable {
  enrollment: Client<typeof EnrollmentService>;
  node: Client<typeof NodeService>;
  edge: Client<typeof EdgeService>;
}

/** A connection as daemons make it: gRPC over HTTP/2, the server known by its name and authority. */
export function connect(port: number, tls: { ca: string; cert?: string; key?: string }): Connection {
  const baseUrl = `https://127.0.0.1:${port}`;
  const sessionManager = new Http2SessionManager(
    baseUrl,
    { pingIntervalMs: 10_000, pingTimeoutMs: 5_000 },
    { ...tls, servername: "control.svc.internal" },
  );
  const transport = createGrpcTransport({
    baseUrl,
    sessionManager,
    acceptCompression: [],
    readMaxBytes: 4 * 1024 * 1024,
  });
  return {
    enrollment: createClient(EnrollmentService, transport),
    node: createClient(NodeService, transport),
    edge: createClient(EdgeService, transport),
    [Symbol.dispose]: () => sessionManager.abort(),
  };
}

let addressesGiven = 0;

/** Makes a token and joins with it. Each node has an address of its own. */
export async function aDaemon(
  world: Pick<World, "authority" | "database">,
  link: Pick<Link, "enrollPort">,
  role: "node" | "edge",
): Promise<DaemonFiles> {
  const { clusterId, caSha256, caCertificate } = world.authority;
  addressesGiven += 1;
  const address = `10.0.${addressesGiven >> 8}.${addressesGiven & 255}`;
  const { token } = await createBootstrapToken(world.database.db, {
    ...{ role, clusterId, caSha256, ...(role === "node" && { addresses: [address] }) },
    ttlSeconds: 60,
    createdBy: null,
    now: new Date(),
  });
  const { der, privateKeyPem } = await aCertificateRequest();
  using connection = connect(link.enrollPort, { ca: caCertificate });
  const joined = await connection.enrollment.join({ token, csr: Uint8Array.from(der), proposedName: role });
  const { id, name, certificateChain, ca } = joined;
  return { id, name, certificate: certificateChain, privateKey: privateKeyPem, ca, address };
}

/** One stream of a daemon that plays by the test's words. */
export interface Talk<Req, Res> extends AsyncDisposable {
  send(message: Req): void;
  /** Waits for the next message of this kind; earlier ones of other kinds are passed over. */
  next<K extends string>(kind: K): Promise<Extract<Res, { case: K }> extends { value: infer V } ? V : never>;
  /** Messages of a kind that have come and were not taken by `next`. */
  waiting(kind: string): number;
  /** Resolves when the stream is over, with the error that ended it, or null. */
  ended: Promise<unknown>;
}

type NodeInit = NonNullable<MessageInitShape<typeof NodeRequestSchema>["message"]>;
type EdgeInit = NonNullable<MessageInitShape<typeof EdgeRequestSchema>["message"]>;

/** Requests that are sent one by one, until closed. */
function aRequestStream<T>() {
  const queue: T[] = [];
  let wake = () => {};
  let closed = false;
  return {
    push(message: T) {
      queue.push(message);
      wake();
    },
    close() {
      closed = true;
      wake();
    },
    async *[Symbol.asyncIterator]() {
      for (;;) {
        const message = queue.shift();
        if (message !== undefined) yield message;
        else if (closed) return;
        else await new Promise<void>((resolve) => (wake = resolve));
      }
    },
  };
}

function aTalk<Init, Message extends { case?: string | undefined; value?: unknown }>(
  connection: Connection,
  open: (requests: AsyncIterable<{ message: Init }>, signal: AbortSignal) => AsyncIterable<{ message: Message }>,
): Talk<Init, Message> {
  const requests = aRequestStream<{ message: Init }>();
  const stop = new AbortController();
  const received: Message[] = [];
  const listen = async () => {
    for await (const { message } of open(requests, stop.signal)) received.push(message);
  };
  let isOver = false;
  const ended = listen()
    .then(
      () => null,
      (error: unknown) => error ?? "ended",
    )
    .finally(() => {
      isOver = true;
    });
  return {
    send: (message) => requests.push({ message }),
    async next(kind) {
      const index = await until(`a message of kind ${kind}`, () => {
        const at = received.findIndex((message) => message.case === kind);
        if (at < 0 && isOver) throw new Error(`the stream is over, without a message of kind ${kind}`);
        return at < 0 ? null : { at };
      });
      const [message] = received.splice(index.at, 1);
      return message?.value as never;
    },
    waiting: (kind) => received.filter((message) => message.case === kind).length,
    ended,
    async [Symbol.asyncDispose]() {
      requests.close();
      stop.abort();
      await ended;
      connection[Symbol.dispose]();
    },
  };
}

export type AgentTalk = Talk<NodeInit, NodeResponse["message"]>;
export type RouterTalk = Talk<EdgeInit, EdgeResponse["message"]>;

const mutual = ({ ca, certificate, privateKey }: DaemonFiles) => ({ ca, cert: certificate, key: privateKey });

export const asNode = (link: Pick<Link, "linkPort">, files: DaemonFiles) => connect(link.linkPort, mutual(files));

/** Opens a stream as an agent, without a word. */
export function openAgentStream(link: Link, files: DaemonFiles): AgentTalk {
  const connection = asNode(link, files);
  return aTalk(connection, (requests, signal) => connection.node.session(requests, { signal }));
}

export const aHello = ({ address }: Pick<DaemonFiles, "address">, overrides: Record<string, unknown> = {}) => ({
  instanceId: "instance-1",
  bootId: "boot-1",
  version: "0.1.0",
  address,
  capacity: { memoryMb: 2048n, cpuMillicores: 2000n, pids: 4096n, diskMb: 10_000n },
  platform: { os: "linux", architecture: "amd64" },
  labels: { zone: "a" },
  ...overrides,
});

/** An agent that has said Hello and what it holds, and has been welcomed. */
export async function anAgent(
  link: Link,
  files: DaemonFiles,
  { hello = {}, items = [], runs = [] }: { hello?: Record<string, unknown>; items?: object[]; runs?: object[] } = {},
): Promise<AgentTalk & { sessionEpoch: bigint }> {
  const talk = openAgentStream(link, files);
  talk.send({ case: "hello", value: aHello(files, hello) });
  talk.send({ case: "inventory", value: { items, runs, final: true } });
  const { sessionEpoch } = await talk.next("welcome");
  return { ...talk, sessionEpoch };
}

/** An agent that has also answered its first assignment and counts as reconciled. */
export async function aReconciledAgent(world: World, link: Link, files: DaemonFiles) {
  const agent = await anAgent(link, files);
  const { resultsIn } = await agent.next("assign");
  agent.send({ case: "applied", value: { resultsIn } });
  await until("the session is reconciled", async () => {
    const session = await world.read<{ reconciled: boolean }>(keys.nodeSession(files.id));
    return session?.reconciled;
  });
  return { ...agent, resultsIn };
}

/** A stream that sends and never reads: real flow control, without a client library that reads ahead. */
export function aDeafAgent(link: Link, files: DaemonFiles): Disposable & { send(message: NodeInit): void } {
  const tls = { ca: files.ca, cert: files.certificate, key: files.privateKey, servername: "control.svc.internal" };
  const session = http2Connect(`https://127.0.0.1:${link.linkPort}`, tls);
  const request = session.request({
    ":method": "POST",
    ":path": "/svc.node.v1.NodeService/Session",
    "content-type": "application/grpc+proto",
    te: "trailers",
  });
  request.pause();
  for (const each of [session, request]) each.on("error", () => {});
  return {
    send(message) {
      const bytes = toBinary(NodeRequestSchema, create(NodeRequestSchema, { message }));
      const head = Buffer.alloc(5);
      head.writeUInt32BE(bytes.byteLength, 1);
      request.write(Buffer.concat([head, bytes]));
    },
    [Symbol.dispose]: () => session.destroy(),
  };
}

/** A router that has said Hello and has been welcomed. */
export async function aRouter(
  link: Pick<Link, "linkPort">,
  files: DaemonFiles,
  hello: Record<string, unknown> = {},
): Promise<RouterTalk & { sessionEpoch: bigint }> {
  const connection = connect(link.linkPort, mutual(files));
  const talk: RouterTalk = aTalk(connection, (requests, signal) => connection.edge.session(requests, { signal }));
  const about = { instanceId: "instance-1", bootId: "boot-1", version: "0.1.0", address: "10.0.0.9" };
  const value = { ...about, knowsGates: true, ...hello };
  talk.send({ case: "hello", value });
  const { sessionEpoch } = await talk.next("welcome");
  return { ...talk, sessionEpoch };
}
