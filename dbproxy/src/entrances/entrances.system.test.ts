import { type AddressInfo, connect as connectPlain, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { connect, type TLSSocket } from "node:tls";
import { isDeepStrictEqual } from "node:util";
import { type Entrances, type EntrancesState, entranceFiles } from "@svc/proto/entrances";
import { readIfThere, writeDurably } from "@svc/runtime/durable-file";
import { afterAll, beforeAll, expect, test } from "vitest";
import { anAuthority, type TestAuthority, type TestDaemon } from "../testing/certificates.ts";
import { spawnProxy } from "../testing/child.ts";
import { aPlace, bridge, type Place } from "../testing/proxy.ts";
import { waitFor } from "../testing/wait-for.ts";
import { entrancesFile } from "./load.ts";

const [nodeId, edgeId] = ["7d1f2a3b-4c5d-4e6f-8a9b-0c1d2e3f4a5b", "8e2f3a4b-5c6d-4e7f-9a0b-1c2d3e4f5a6b"];
/** The machine's own address, and that of the app. */
const [address, appHost] = [bridge(8), bridge(9)];
const port = 27_434;
let authority: TestAuthority;
const edge: TestDaemon = { id: edgeId, role: "edge" };

/** An app that says back what it hears, and at the end how much that was. */
async function startApp(
  at = 0,
): Promise<{ port: number; heard: () => number; [Symbol.asyncDispose](): Promise<void> }> {
  let heard = 0;
  const sockets = new Set<Socket>();
  const server: Server = createServer({ allowHalfOpen: true }, (socket) => {
    let own = 0;
    sockets.add(socket);
    socket.on("error", () => {});
    socket.on("data", (chunk) => {
      own += chunk.length;
      heard += chunk.length;
      if (!socket.write(chunk)) socket.pause();
    });
    socket.on("drain", () => socket.resume());
    socket.on("end", () => socket.end(` ${own}`));
  });
  await new Promise<void>((resolve) => server.listen(at, appHost, resolve));
  return {
    port: (server.address() as AddressInfo).port,
    heard: () => heard,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

let generation = 0;
/** What the agent would write next. */
const fileOf = (entrances: Entrances["entrances"]): string => {
  generation += 1;
  return JSON.stringify({ generation: String(generation), address, entrances } satisfies Entrances);
};

async function aNode(appPort: number, settings: Record<string, string> = {}): Promise<Place> {
  const place = await aPlace(settings);
  await authority.certify(place.dir, { id: nodeId, address });
  const entrances = [{ port, to: { host: appHost, port: appPort } }];
  await writeDurably(entrancesFile(place.dir), fileOf(entrances));
  return place;
}

interface Caller {
  port?: number;
  cert?: string;
  key?: string;
  ca?: string;
}

/** What comes back for `text`, from its first byte to the end; "" also when nothing does. */
const answerTo = (options: Caller, text: string): Promise<string> =>
  new Promise((resolve) => {
    let answer = "";
    // A node is known by its address, as Go knows it without being told a name.
    const socket = connect({ host: address, port, ca: authority.ca, ALPNProtocols: ["h2", "http/1.1"], ...options });
    socket.on("error", () => {});
    socket.on("data", (chunk: Buffer) => {
      answer += chunk.toString();
    });
    socket.once("close", () => resolve(answer));
    socket.end(text);
  });

const opened = async (options: Caller): Promise<TLSSocket> => {
  const socket = connect({ host: address, port, ca: authority.ca, ...options });
  socket.on("error", () => {});
  await new Promise((resolve) => socket.once("secureConnect", resolve));
  return socket;
};

beforeAll(async () => {
  authority = await anAuthority();
});

let shared: AsyncDisposableStack;
let app: Awaited<ReturnType<typeof startApp>>;
let place: Place;
beforeAll(async () => {
  shared = new AsyncDisposableStack();
  app = shared.use(await startApp());
  place = shared.use(await aNode(app.port));
  shared.use(await spawnProxy(place));
  await waitFor(async () => (await answerTo(await authority.issue(edge), "?")) === "? 1");
});
afterAll(() => shared.disposeAsync());

test("an edge reaches the app, which may answer after all was said", async () => {
  const own = await authority.issue(edge);
  const much = "x".repeat(3_000_000);
  expect(await answerTo(own, much)).toBe(`${much} 3000000`);
});

test.each<{ who: string; caller: () => Promise<Caller> }>([
  { who: "nobody", caller: async () => ({}) },
  { who: "a node", caller: () => authority.issue({ id: nodeId, role: "node" }) },
  { who: "an edge whose certificate is over", caller: () => authority.issue({ ...edge, isOver: true }) },
  { who: "an edge of another cluster", caller: () => authority.issue({ ...edge, clusterId: nodeId }) },
  { who: "an edge without the cluster's authority", caller: async () => (await anAuthority()).issue(edge) },
])("who is $who gets nowhere", async ({ caller }) => {
  const before = app.heard();
  expect(await answerTo(await caller(), "GET / HTTP/1.1\r\n\r\n")).toBe("");
  expect(app.heard()).toBe(before);
});

test("whoever speaks without TLS gets nowhere", async () => {
  const before = app.heard();
  const socket = connectPlain({ host: address, port });
  const said: Buffer[] = [];
  socket.on("data", (chunk: Buffer) => said.push(chunk));
  socket.on("error", () => {});
  socket.write("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
  await new Promise((resolve) => socket.once("close", resolve));
  // An alert of TLS at most.
  expect(Buffer.concat(said).toString("latin1")).not.toContain("HTTP");
  expect(app.heard()).toBe(before);
});

test("an app that is being started again is waited for", async () => {
  const other = await startApp();
  const { port: appPort } = other;
  await other[Symbol.asyncDispose]();
  await using entered = await aNode(appPort, { SVC_DBPROXY_SERVER_SECONDS: "30" });
  const entrances = [{ port: port + 1, to: { host: appHost, port: appPort } }];
  await writeDurably(entrancesFile(entered.dir), fileOf(entrances));
  await using _proxy = await spawnProxy(entered);
  const own = await authority.issue(edge);
  const socket = await opened({ ...own, port: port + 1 });
  let answer = "";
  socket.on("data", (chunk: Buffer) => {
    answer += chunk.toString();
  });
  socket.write("hello");
  await using _app = await startApp(appPort);
  await waitFor(() => answer === "hello");
  socket.destroy();
});

test("another process takes over, and what is open goes on until it ends by itself", async () => {
  await using entered = await aNode(app.port);
  const entrances = [{ port: port + 2, to: { host: appHost, port: app.port } }];
  await writeDurably(entrancesFile(entered.dir), fileOf(entrances));
  await using first = await spawnProxy(entered);
  const own = { ...(await authority.issue(edge)), port: port + 2 };
  const stream = await opened(own);
  let answer = "";
  stream.on("data", (chunk: Buffer) => {
    answer += chunk.toString();
  });
  stream.write("a");
  await waitFor(() => answer === "a");
  await using _second = await spawnProxy(entered);
  first.kill("SIGTERM");
  for (let count = 0; count < 10; count += 1) await waitFor(async () => (await answerTo(own, "?")) === "? 1");
  stream.write("b");
  await waitFor(() => answer === "ab");
  stream.end();
  await waitFor(() => answer === "ab 2");
  expect(await first.exit).toBe(0);
});

test("entrances that are named no more are closed, and what is open goes on", async () => {
  const own = await authority.issue(edge);
  const stream = await opened(own);
  let answer = "";
  stream.on("data", (chunk: Buffer) => {
    answer += chunk.toString();
  });
  stream.write("a");
  await waitFor(() => answer === "a");
  const text = (ports: number[]) =>
    fileOf(ports.map((each) => ({ port: each, to: { host: appHost, port: app.port } })));
  await writeDurably(entrancesFile(place.dir), text([port + 3]));
  const refusedAt = (at: number) =>
    new Promise<boolean>((resolve) => {
      const probe = connectPlain({ host: address, port: at });
      probe.once("error", () => resolve(true));
      probe.once("connect", () => {
        probe.destroy();
        resolve(false);
      });
    });
  await waitFor(() => refusedAt(port));
  expect(await answerTo({ ...own, port: port + 3 }, "?")).toBe("? 1");
  stream.write("b");
  await waitFor(() => answer === "ab");
  stream.destroy();
  // What cannot be read changes nothing.
  for (const bad of [
    "{",
    text([port + 3, port + 3]),
    JSON.stringify({ generation: "9", address: "all", entrances: [] }),
  ]) {
    await writeDurably(entrancesFile(place.dir), bad);
    expect(await answerTo({ ...own, port: port + 3 }, "?")).toBe("? 1");
  }
});

test("an edge that is gone gets nowhere, what it has open ends, and others go on", async () => {
  await using entered = await aNode(app.port);
  const entrances = [{ port: port + 5, to: { host: appHost, port: app.port } }];
  await writeDurably(entrancesFile(entered.dir), fileOf(entrances));
  await using _proxy = await spawnProxy(entered);
  const goneId = "9f3a4b5c-6d7e-4f80-8b1c-2d3e4f5a6b7c";
  const [own, gone] = [await authority.issue(edge), await authority.issue({ ...edge, id: goneId })];
  await waitFor(async () => (await answerTo({ ...own, port: port + 5 }, "?")) === "? 1");
  const heardBy = async (caller: Caller) => {
    const stream = await opened({ ...caller, port: port + 5 });
    const heard = { stream, text: "" };
    stream.on("data", (chunk: Buffer) => {
      heard.text += chunk.toString();
    });
    stream.write("a");
    await waitFor(() => heard.text === "a");
    return heard;
  };
  const [goesOn, ends] = [await heardBy(own), await heardBy(gone)];
  const ended = new Promise((resolve) => ends.stream.once("close", resolve));
  await entered.refuse([goneId]);
  await ended;
  const before = app.heard();
  expect(await answerTo({ ...gone, port: port + 5 }, "GET / HTTP/1.1\r\n\r\n")).toBe("");
  expect(app.heard()).toBe(before);
  goesOn.stream.write("b");
  await waitFor(() => goesOn.text === "ab");
  goesOn.stream.destroy();
  expect(await answerTo({ ...own, port: port + 5 }, "?")).toBe("? 1");
});

test("it tells which entrances it listens at, and which it cannot yet", async () => {
  await using busy = await startApp();
  const own = await aPlace();
  await using _own = own;
  await authority.certify(own.dir, { id: nodeId, address: appHost });
  const at = (each: number) => ({ port: each, to: { host: appHost, port: app.port } });
  const write = (text: string) => writeDurably(entrancesFile(own.dir), text);
  const told = async () => JSON.parse((await readIfThere(join(own.dir, entranceFiles.state))) ?? "{}");
  const tells = async (wanted: EntrancesState) => waitFor(async () => isDeepStrictEqual(await told(), wanted));
  await using _proxy = await spawnProxy(own);
  // Before there is anything to listen at: that it knows entrances.
  await tells({ generation: "0", missing: [] });
  const entrances = [at(port + 4), at(busy.port)];
  await write(JSON.stringify({ generation: "7", address: appHost, entrances } satisfies Entrances));
  await tells({ generation: "7", missing: [busy.port] });
});
