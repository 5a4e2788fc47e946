import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { Agent, get } from "node:http";
import { connect as connectHttp2 } from "node:http2";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { DrainSchema, EdgeState_Phase, type EdgeStateSchema } from "@svc/proto/edge";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { quiet, startTestEdge, type TestEdge } from "../testing/edge.ts";
import { ask } from "../testing/http.ts";
import { aComplete, aProxy, aStatic } from "../testing/routes.ts";
import { startUpstream, type Upstream } from "../testing/upstream.ts";
import { waitFor } from "../testing/wait-for.ts";
import { type HealthListener, serveHealth } from "./health.ts";

const host = "shop.svc.localhost";
let app: Upstream;
let edge: TestEdge;
let health: HealthListener;
beforeEach(async () => {
  app = await startUpstream("blue");
});
afterEach(async () => {
  await health?.[Symbol.asyncDispose]();
  await edge?.[Symbol.asyncDispose]();
  await app[Symbol.asyncDispose]();
});

async function start(env: Record<string, string> = {}): Promise<void> {
  edge = await startTestEdge({ env: { SVC_EDGE_DRAIN_SECONDS: "0.4", ...env } });
  await listenForHealth();
}

async function listenForHealth(): Promise<void> {
  health = await serveHealth({ host: "127.0.0.1", port: 0 }, edge.edge().standing.unready, quiet);
}

async function restartRouter(): Promise<void> {
  await health[Symbol.asyncDispose]();
  await edge.stopRouter();
  await edge.startRouter();
  await listenForHealth();
}

const healthNow = () => ask(`127.0.0.1:${health.port}`, "health", "/_svc/edge");
const isWell = async () => (await healthNow()).status === 200;

/** What this edge said of itself in its present session, newest last. */
let said: MessageInitShape<typeof EdgeStateSchema>[] = [];
let told = 0n;
function aSession(id = "e1"): void {
  said = [];
  edge.edge().standing.open(id, (state) => said.push(state));
}
const tell = (drain: { leave: boolean; inRotation: boolean; tellsCertificates?: boolean }): void => {
  told += 1n;
  edge.edge().standing.learn(create(DrainSchema, { generation: told, ...drain }));
};
const comeIn = (): void => tell({ leave: false, inRotation: true });
const leave = (): void => tell({ leave: true, inRotation: false });
const phase = () => edge.edge().rotation.phase();

/** Asks on a connection that is kept open where the edge agrees; what it says of that. */
async function connectionHeader(path = "/"): Promise<string | undefined> {
  const agent = new Agent({ keepAlive: true });
  const [hostname, port] = edge.http.split(":");
  const sent = get({ hostname, port, path, agent, headers: { host } });
  const [answer] = await once(sent, "response");
  answer.resume();
  await once(answer, "end");
  agent.destroy();
  return answer.headers.connection;
}

test("health is bad until control counts on the edge, and as Caddy is", async () => {
  await start({ SVC_EDGE_TLS: "off" });
  expect((await healthNow()).body).toMatch(/no route table/);
  await edge.serve({ upserts: [aProxy(host, app.address)] });
  expect(await healthNow()).toMatchObject({ status: 503, body: expect.stringMatching(/not in rotation/) });
  aSession();
  comeIn();
  expect(await healthNow()).toMatchObject({ status: 200, body: "ok\n", headers: { "cache-control": "no-store" } });
  expect((await ask(`127.0.0.1:${health.port}`, "health", "/")).status).toBe(404);
  expect((await ask(`127.0.0.1:${health.port}`, "health", "/_svc/edge", { method: "POST" })).status).toBe(405);

  await edge.caddy.kill();
  await waitFor(async () => (await healthNow()).body.startsWith("Caddy does not"));
  await edge.caddy.restart();
  await waitFor(isWell);

  // Control may be away, and the router may be started anew.
  edge.edge().standing.closed();
  await restartRouter();
  await waitFor(isWell);
  edge.edge().standing.proveTime(Date.now() + 3_600_000);
  expect((await healthNow()).body).toMatch(/clock/);
  await edge.edge().rotation.forget();
  expect((await healthNow()).status).toBe(503);
});

test("an edge is whole when it has the table, files, and all that control tells", async () => {
  await start({ SVC_EDGE_TLS: "off" });
  aSession();
  tell({ leave: false, inRotation: false, tellsCertificates: true });
  const lacks = () => said.at(-1)?.lacks;
  await waitFor(() => lacks() === "the route table");
  edge.edge().applier.submit(aComplete(1, [aStatic("docs.svc.localhost", `sha256:${"a".repeat(64)}`)]));
  await waitFor(() => lacks() === "what 1 hosts serve");
  edge.edge().applier.submit(aComplete(2, [aProxy(host, app.address)]));
  await waitFor(() => lacks() === "certificates, challenges, salts");
  for (const thing of ["certificates", "challenges", "salts"] as const) edge.edge().standing.heard(thing);
  await waitFor(() => lacks() === "");
  expect(said.at(-1)).toMatchObject({
    phase: EdgeState_Phase.SERVING,
    unready: expect.stringMatching(/not in rotation/),
  });
  comeIn();
  await waitFor(() => said.at(-1)?.unready === "");
});

describe("a drain", () => {
  test("is told by health first, closes connections in order, and can be taken back", async () => {
    await start();
    await edge.serve({ upserts: [aProxy(host, app.address)] });
    aSession();
    comeIn();
    await waitFor(isWell);
    const events = get({ ...at(), path: "/events", headers: { host } });
    const [stream] = await once(events, "response");
    await once(stream, "data");
    const talk = upgrade();
    expect(String((await once(talk, "data"))[0])).toContain("101 Switching Protocols");
    const hungUp = once(talk, "close");
    const over2 = connectHttp2(`https://${edge.https}`, { rejectUnauthorized: false, servername: host });
    over2.on("error", () => {});
    const goodbye = once(over2, "goaway");
    await once(over2.request({ ":path": "/", ":authority": host }).resume(), "end");

    leave();
    expect(await healthNow()).toMatchObject({ status: 503, body: "it is being drained\n" });
    expect(phase()).toBe("leaving");
    // As long as health alone says it, all is as before.
    expect(await connectionHeader()).toBeUndefined();
    await waitFor(() => phase() !== "leaving");
    await goodbye;
    over2.close();
    await hungUp;
    await waitFor(async () => (await connectionHeader()) === "close");
    expect((await ask(edge.http, host)).body).toBe("blue");
    await waitFor(() => phase() === "drained");
    // Caddy lets a stream go on that was open, until it ends or Caddy does.
    await once(stream, "data");
    stream.destroy();
    await waitFor(() => said.at(-1)?.phase === EdgeState_Phase.DRAINED);
    expect(said.at(-1)?.generation).toBe(told);
    const late = upgrade();
    expect(String((await once(late, "data"))[0])).toContain("101 Switching Protocols");
    late.destroy();

    edge.edge().standing.closed();
    await restartRouter();
    expect(phase()).toBe("drained");
    await waitFor(async () => (await healthNow()).body === "it is drained\n");
    expect(await connectionHeader()).toBe("close");

    aSession();
    comeIn();
    await waitFor(isWell);
    await waitFor(async () => (await connectionHeader()) === undefined);
    expect(said.at(-1)).toMatchObject({ phase: EdgeState_Phase.SERVING });
  });

  test("goes on where it was after the router was started anew, and no longer than it would have", async () => {
    await start({ SVC_EDGE_DRAIN_SECONDS: "3600", SVC_EDGE_TLS: "off" });
    await edge.serve({ upserts: [aProxy(host, app.address)] });
    aSession();
    comeIn();
    leave();
    await edge.edge().rotation[Symbol.asyncDispose]();
    await restartRouter();
    expect(phase()).toBe("leaving");
    await edge.stopRouter();
    // It began an hour and a half ago.
    const kept = {
      format: 1,
      edgeId: "e1",
      generation: Number(told),
      leave: true,
      inRotation: false,
      phase: "leaving",
    };
    const path = join(edge.config.dir, "rotation.json");
    await writeFile(path, JSON.stringify({ ...kept, since: Date.now() - 5_400_000 }));
    await edge.startRouter();
    await waitFor(() => phase() !== "leaving");
    // What is not understood is no leave to stay: control says it again.
    await edge.stopRouter();
    await writeFile(path, "{");
    await edge.startRouter();
    expect(edge.edge().standing.unready()).toMatch(/not in rotation/);
  });
});

const at = () => {
  const [hostname, port] = edge.http.split(":");
  return { hostname, port };
};

/** A connection on which a WebSocket begins. */
function upgrade(): Socket {
  const [hostname, port] = edge.http.split(":");
  const socket = connect({ host: hostname ?? "", port: Number(port) });
  socket.on("error", () => {});
  const head = ["Connection: keep-alive, Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="];
  socket.write(`GET /echo HTTP/1.1\r\nHost: ${host}\r\n${head.join("\r\n")}\r\nSec-WebSocket-Version: 13\r\n\r\n`);
  return socket;
}
