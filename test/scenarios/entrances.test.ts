import { get, request } from "node:http";
import { entrancesFile } from "@svc/dbproxy/entrances/load";
import { anAuthority, type TestAuthority } from "@svc/dbproxy/testing/certificates";
import { aPlace, bridge, type Place, startProxy } from "@svc/dbproxy/testing/proxy";
import { createCaddyAdmin } from "@svc/router/caddy";
import { startTestEdge, type TestEdge } from "@svc/router/testing/edge";
import { ask } from "@svc/router/testing/http";
import { anEntrance, aProxy } from "@svc/router/testing/routes";
import { startUpstream, type Upstream } from "@svc/router/testing/upstream";
import { waitFor } from "@svc/router/testing/wait-for";
import { writeDurably } from "@svc/runtime/durable-file";
import { systemClock } from "@svc/runtime/system";
import { afterAll, beforeAll, expect, test } from "vitest";

const [nodeId, edgeId] = ["7d1f2a3b-4c5d-4e6f-8a9b-0c1d2e3f4a5b", "8e2f3a4b-5c6d-4e7f-9a0b-1c2d3e4f5a6b"];
const host = "shop.svc.localhost";
const address = bridge(20);
const [port, otherPort] = [27_501, 27_502];
const entrance = `${address}:${port}`;
const opened = new AsyncDisposableStack();
let edge: TestEdge;
let app: Upstream;
let node: Place;
let authority: TestAuthority;

/** How it was before a route led to an entrance, and what the first visitor of the first one got. */
let before: { config: string; status: number };

const configOfCaddy = async () => JSON.stringify(await createCaddyAdmin(systemClock, edge.config.adminSocket).config());
const identityOf = async (by: TestAuthority) => {
  const { cert, key } = await by.issue({ id: edgeId, role: "edge" });
  return { certificatePem: cert, privateKeyPem: key, caPem: by.ca };
};
const portOf = (upstream: Upstream): number => Number(upstream.address.split(":")[1]);
const answers = () => waitFor(async () => (await ask(edge.http, host)).status === 200);
/** Ends every connection to the app, also those that Caddy keeps for later. */
const restartApp = async (): Promise<void> => {
  const at = portOf(app);
  await app[Symbol.asyncDispose]();
  app = await startUpstream("behind", at);
};

beforeAll(async () => {
  authority = await anAuthority();
  app = await startUpstream("behind");
  opened.defer(() => app[Symbol.asyncDispose]());
  node = opened.use(await aPlace());
  await authority.certify(node.dir, { id: nodeId, address });
  const to = { host: "127.0.0.1", port: portOf(app) };
  const entrances = [port, otherPort].map((each) => ({ port: each, to }));
  await writeDurably(entrancesFile(node.dir), JSON.stringify({ generation: "1", address, entrances }));
  opened.use(await startProxy(node));
  edge = opened.use(await startTestEdge());
  await edge.edge().entranceKeys.use(await identityOf(authority));
  await edge.serve({ upserts: [aProxy("plain.svc.localhost", app.address)] });
  before = { config: await configOfCaddy(), status: 0 };
  await edge.serve({ upserts: [anEntrance(host, entrance)] });
  before.status = (await ask(edge.http, host)).status;
});
afterAll(() => opened.disposeAsync());

test("Caddy is told of entrances when the first route leads to one, before visitors do", async () => {
  expect(before.config).not.toContain("client_certificate");
  expect(before.status).toBe(200);
  expect(await configOfCaddy()).toContain("client_certificate");
});

test.each(["GET", "POST", "DELETE"])("%s reaches an app through the entrance of its node", async (method) => {
  const sent = method === "GET" ? { method } : { method, body: "hello" };
  expect(await ask(edge.http, host, "/a?b=c", sent)).toMatchObject({ status: 200, body: "behind" });
  expect(app.last()).toMatchObject({ method, url: "/a?b=c", body: sent.body ?? "", headers: { host } });
  expect(app.last()?.headers).toMatchObject({ "x-forwarded-proto": "http", "x-forwarded-host": host });
});

test("much comes through whole", async () => {
  const much = "x".repeat(5_000_000);
  const answer = await ask(edge.http, host, "/headers?bytes=3000000", { method: "POST", body: much });
  expect([answer.body.length, app.last()?.body.length]).toEqual([3_000_000, 5_000_000]);
});

test("events arrive as they are sent", async () => {
  const [hostname, at] = edge.http.split(":");
  const events = await new Promise<string>((resolve, reject) => {
    let text = "";
    const sent = get({ hostname, port: at, path: "/events", headers: { host }, agent: false }, (answer) => {
      answer.on("data", (chunk: Buffer) => {
        text += chunk.toString();
        if (text.split("\n\n").length > 3) {
          resolve(text);
          sent.destroy();
        }
      });
    });
    sent.on("error", reject);
  });
  expect(events).toContain("data: behind");
});

test("what is upgraded goes both ways", async () => {
  const [hostname, at] = edge.http.split(":");
  const echoed = await new Promise<string>((resolve, reject) => {
    const headers = {
      host,
      connection: "Upgrade",
      upgrade: "websocket",
      "sec-websocket-key": "c3ZjLXN2Yy1zdmMtc3ZjLQ==",
    };
    const sent = request({ hostname, port: at, path: "/echo", headers, agent: false });
    sent.on("upgrade", (_, socket) => {
      socket.once("data", (chunk: Buffer) => {
        resolve(chunk.toString());
        socket.destroy();
      });
      socket.write("ping");
    });
    sent.on("error", reject);
    sent.end();
  });
  expect(echoed).toBe("ping");
});

test("several entrances serve one host, and an upstream that is none is left alone beside them", async () => {
  const plain = await startUpstream("plain");
  const both = anEntrance("both.svc.localhost", entrance, `${address}:${otherPort}`);
  const mixed = anEntrance("mixed.svc.localhost", entrance);
  if (mixed.target.case === "proxy") mixed.target.value.upstreams.push(plain.address);
  await edge.serve({ upserts: [both, mixed, aProxy("plain.svc.localhost", plain.address)] });
  for (let count = 0; count < 6; count += 1) {
    expect((await ask(edge.http, "both.svc.localhost")).body).toBe("behind");
    expect((await ask(edge.http, "mixed.svc.localhost")).body).toBe("behind");
  }
  expect((await ask(edge.http, "plain.svc.localhost")).body).toBe("plain");
  await plain[Symbol.asyncDispose]();
});

test("without a certificate of an edge nobody gets to the app, at the very same address", async () => {
  const before = app.requests();
  await expect(ask(entrance, host)).rejects.toThrow();
  expect(app.requests()).toBe(before);
});

test("a Caddy that was killed comes back with what it shows, without the router", async () => {
  await edge.stopRouter();
  await edge.caddy.kill();
  await edge.caddy.restart();
  expect((await ask(edge.http, host)).body).toBe("behind");
  await edge.startRouter();
  await answers();
});

test("another certificate is shown without anybody's doing", async () => {
  const next = await anAuthority();
  await next.certify(node.dir, { id: nodeId, address });
  await waitFor(async () => {
    await restartApp();
    return (await ask(edge.http, host)).status === 502;
  });
  await edge.edge().entranceKeys.use(await identityOf(next));
  await answers();
  authority = next;
});

test("whoever listens at the address with a certificate for another one is told nothing", async () => {
  await authority.certify(node.dir, { id: nodeId, address: bridge(21) });
  await waitFor(async () => {
    await restartApp();
    return (await ask(edge.http, host)).status === 502;
  });
  const before = app.requests();
  expect((await ask(edge.http, host, "/secret", { method: "POST", body: "word" })).status).toBe(502);
  expect(app.requests()).toBe(before);
  await authority.certify(node.dir, { id: nodeId, address });
  await answers();
});
