import { randomBytes } from "node:crypto";
import { createServer, get, type IncomingMessage, request } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { buffer } from "node:stream/consumers";
import { constants, createGunzip, gunzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { usableCaddy } from "./caddy.ts";
import { isSince } from "./render/caddy-version.ts";
import { startTestEdge, type TestEdge } from "./testing/edge.ts";
import { ask, askRaw } from "./testing/http.ts";
import { aProxy } from "./testing/routes.ts";
import { startUpstream, type Upstream } from "./testing/upstream.ts";
import { waitFor } from "./testing/wait-for.ts";

const host = "shop.svc.localhost";
/** Nobody listens there, nor is given the port while a test runs, as one that was just closed may be. */
const nobody = "127.0.0.1:1";
let edge: TestEdge;
let app: Upstream;

beforeAll(async () => {
  edge = await startTestEdge();
  app = await startUpstream("blue");
  await edge.serve({ upserts: [aProxy(host, app.address)] });
});

afterAll(async () => {
  await edge[Symbol.asyncDispose]();
  await app[Symbol.asyncDispose]();
});

test.each(["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])("%s reaches the app as it was sent", async (method) => {
  const sent = method === "GET" ? { method } : { method, body: "hello" };
  const answer = await ask(edge.http, host, "/a/b?c=%20d&e=//f", sent);
  expect(answer).toMatchObject({ status: 200, body: "blue" });
  expect(app.last()).toMatchObject({ method, url: "/a/b?c=%20d&e=//f", headers: { host } });
  expect(app.last()?.body).toBe(sent.body ?? "");
});

test("HEAD gives the headers and no body", async () => {
  expect(await ask(edge.http, host, "/", { method: "HEAD" })).toMatchObject({
    status: 200,
    body: "",
    headers: { "x-name": "blue" },
  });
});

describe("headers that only a proxy may set", () => {
  const forged = {
    Forwarded: "for=6.6.6.6",
    "X-Forwarded-For": "6.6.6.6",
    "X-Forwarded-Host": "other.test",
    "X-Forwarded-Proto": "https",
    "X-Forwarded-Port": "443",
    "X-Forwarded-Prefix": "/admin",
    X_Forwarded_For: "6.6.6.6",
    "X-Forwarded_Proto": "https",
    "X-Real-IP": "6.6.6.6",
    X_Real_IP: "6.6.6.6",
    "X-Svc-Reason": "host",
    "X-Svc-Project": "p2",
    X_Svc_Project: "p2",
    Proxy: "http://6.6.6.6",
    "True-Client-IP": "6.6.6.6",
    True_Client_IP: "6.6.6.6",
    "CF-Connecting-IP": "6.6.6.6",
    "CF-Connecting-IPv6": "6::6",
    CF_Connecting_IP: "6.6.6.6",
    "X-Client-IP": "6.6.6.6",
    "X-Client_IP": "6.6.6.6",
    "X-Cluster-Client-IP": "6.6.6.6",
    X_Cluster_Client_IP: "6.6.6.6",
    "Client-IP": "6.6.6.6",
    Client_IP: "6.6.6.6",
    "Fastly-Client-IP": "6.6.6.6",
    "WL-Proxy-Client-IP": "6.6.6.6",
    "X-Azure-ClientIP": "6.6.6.6",
    "X-Envoy-Original-Forwarded": "6.6.6.6",
    "X-Original-URL": "/admin",
    X_Original_URL: "/admin",
    "X-Original-Host": "other.test",
    "X-Rewrite-URL": "/admin",
    X_Rewrite_URL: "/admin",
    "X-Middleware-Subrequest": "middleware:middleware",
    X_Middleware_Subrequest: "middleware:middleware",
    "X-Middleware-Subrequest-Id": "1",
  };
  const told = () =>
    Object.fromEntries(
      Object.entries(app.last()?.headers ?? {}).filter(([name]) => /^(forwarded|proxy|x[-_])|ip|client/.test(name)),
    );
  const ours = {
    "x-forwarded-for": "127.0.0.1",
    "x-forwarded-host": host,
    "x-forwarded-proto": "http",
    "x-real-ip": "127.0.0.1",
  };

  test("are Caddy's, whatever the visitor sends", async () => {
    await ask(edge.http, host, "/", { headers: forged });
    expect(told()).toEqual(ours);
  });

  test("and what an app calls its own arrives", async () => {
    const own = { "x-client-info": "app/1", "x-middleware-prefetch": "1", "x-request-id": "7" };
    await ask(edge.http, host, "/", { headers: own });
    expect(told()).toEqual({ ...ours, ...own });
  });

  test("are there although Connection names them", async () => {
    const names = "X-Forwarded-For, X-Forwarded-Host, X-Forwarded-Proto, X-Real-Ip";
    await ask(edge.http, host, "/", { headers: { ...forged, Connection: names } });
    expect(told()).toEqual(ours);
  });
});

test.each([
  { sets: "a=1; Domain=svc.localhost; Path=/", arrives: "a=1; Path=/" },
  { sets: "a=1; domain=.SVC.localhost", arrives: "a=1" },
  { sets: 'a=1; DOMAIN = "localhost" ; Secure', arrives: "a=1; Secure" },
  { sets: "a=1;domain=svc.localhost;domain=svc.localhost;HttpOnly", arrives: "a=1;HttpOnly" },
  { sets: `a=1; Domain=${host}; Path=/`, arrives: `a=1; Domain=${host}; Path=/` },
  { sets: "a=domain=svc.localhost; Path=/", arrives: "a=domain=svc.localhost; Path=/" },
])("the cookie $sets reaches no neighbour", async ({ sets, arrives }) => {
  const answer = await ask(edge.http, host, `/cookie?set=${encodeURIComponent(sets)}`);
  expect(answer.headers["set-cookie"]).toEqual([arrives]);
});

describe("a request with both kinds of length", () => {
  const chunk = "5\r\nhello\r\n0\r\n\r\n";
  const smuggled = `GET /smuggled HTTP/1.1\r\nHost: ${host}\r\n\r\n`;

  test.each([
    { what: "the length first", fields: "Content-Length: 4\r\nTransfer-Encoding: chunked" },
    { what: "the chunks first", fields: "Transfer-Encoding: chunked\r\nContent-Length: 4" },
    {
      what: "a length that ends behind the chunks",
      fields: `Transfer-Encoding: chunked\r\nContent-Length: ${chunk.length + smuggled.length}`,
    },
  ])("reaches the app with one alone, and hides no other request ($what)", async ({ fields }) => {
    const before = app.requests();
    const answer = await askRaw(
      edge.http,
      `POST /both HTTP/1.1\r\nHost: ${host}\r\n${fields}\r\nConnection: close\r\n\r\n${chunk}${smuggled}`,
    );
    expect(answer).toMatch(/^HTTP\/1.1 200 /);
    expect(app.requests()).toBe(before + 1);
    expect(app.last()).toMatchObject({ url: "/both", body: "hello" });
    expect(app.last()?.headers["content-length"]).toBeUndefined();
  });

  test.each([
    { what: "two lengths", fields: "Content-Length: 4\r\nContent-Length: 5" },
    { what: "chunks twice", fields: "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked" },
    { what: "chunks and something else", fields: "Transfer-Encoding: gzip, chunked\r\nContent-Length: 4" },
    { what: "a sign", fields: "Content-Length: +4" },
  ])("or with $what is refused", async ({ fields }) => {
    const before = app.requests();
    const answer = await askRaw(
      edge.http,
      `POST / HTTP/1.1\r\nHost: ${host}\r\n${fields}\r\nConnection: close\r\n\r\n${chunk}`,
    );
    expect(Number(answer.split(" ")[1])).toBeGreaterThanOrEqual(400);
    expect(app.requests()).toBe(before);
  });
});

describe("answers of an app", () => {
  const page = (type: string, more: Record<string, string> = {}) =>
    `/headers?${new URLSearchParams({ "content-type": type, ...more })}&bytes=4000`;
  const encodingOf = async (path: string, accept: string) =>
    (await ask(edge.http, host, path, { headers: { "accept-encoding": accept } })).headers["content-encoding"];

  test.each([
    { accepts: "gzip, deflate, br, zstd", encoding: "zstd" },
    { accepts: "gzip, deflate, br", encoding: "gzip" },
    { accepts: "br", encoding: undefined },
    { accepts: "identity", encoding: undefined },
    { accepts: "gzip;q=0", encoding: undefined },
  ])("come to a browser that accepts $accepts as $encoding", async ({ accepts, encoding }) => {
    expect(await encodingOf(page("text/html; charset=utf-8"), accepts)).toBe(encoding);
  });

  test("are the same afterwards", async () => {
    const bytes = await new Promise<Buffer>((resolve, reject) => {
      const headers = { host, "accept-encoding": "gzip" };
      get({ hostname: "127.0.0.1", port: edge.http.split(":")[1], path: page("text/html"), headers }, (answer) =>
        buffer(answer).then(resolve, reject),
      ).once("error", reject);
    });
    expect(bytes.length).toBeLessThan(1000);
    expect(gunzipSync(bytes).toString()).toBe("x".repeat(4000));
  });

  test("to HEAD say how long the page is, and not how long nothing is when compressed", async () => {
    const headers = { "accept-encoding": "gzip" };
    const path = page("text/html", { "content-length": "4000" });
    const head = await ask(edge.http, host, path, { method: "HEAD", headers });
    expect(head).toMatchObject({ status: 200, headers: { "content-length": "4000" } });
    expect(head.headers["content-encoding"]).toBeUndefined();
  });

  test("that are pages in parts arrive part by part, compressed where Caddy hands on what it compressed", async () => {
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      const headers = { host, "accept-encoding": "gzip" };
      get({ hostname: "127.0.0.1", port: edge.http.split(":")[1], path: "/page", headers, agent: false }, resolve).once(
        "error",
        reject,
      );
    });
    const flushes = isSince(await usableCaddy(edge.config.caddyBinary, { by: "none" }), 11);
    expect(answer.headers["content-encoding"]).toBe(flushes ? "gzip" : undefined);
    const arrived = flushes ? answer.pipe(createGunzip({ flush: constants.Z_SYNC_FLUSH })) : answer;
    let text = "";
    arrived.on("data", (part: Buffer) => {
      text += part.toString();
    });
    await waitFor(() => text === "first".repeat(1000));
    answer.destroy();
  });

  test.each([
    { what: "pictures", path: page("image/png") },
    { what: "short ones", path: "/headers?content-type=text/html" },
    { what: "what is compressed already", path: page("text/html", { "content-encoding": "br" }), encoding: "br" },
    { what: "what nobody may change", path: page("text/html", { "cache-control": "public, no-transform" }) },
    { what: "events", path: "/events" },
  ])("stay as they are where they are $what", async ({ path, encoding }) => {
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      const headers = { host, "accept-encoding": "gzip" };
      get({ hostname: "127.0.0.1", port: edge.http.split(":")[1], path, headers, agent: false }, resolve).once(
        "error",
        reject,
      );
    });
    expect(answer.headers["content-encoding"]).toBe(encoding);
    answer.destroy();
  });
});

test("a large body streams through in both directions without being kept", async () => {
  const body = randomBytes(8 * 1024 ** 2).toString("hex");
  await ask(edge.http, host, "/upload", { method: "POST", body });
  expect(app.last()?.body.length).toBe(body.length);
});

describe("an app that does not answer", () => {
  test("in time gives 504 and a page", async () => {
    // An edge of its own: everybody else's answer may take as long as the machine makes it.
    await using hasty = await startTestEdge({ answerTimeoutMs: 1000 });
    await hasty.serve({ upserts: [aProxy(host, app.address)] });
    const answer = await ask(hasty.http, host, "/slow");
    expect(answer).toMatchObject({ status: 504, headers: { "cache-control": "no-store" } });
    expect(answer.body).toContain("taking too long");
  });

  test("and is gone gives 502, as a page or as JSON", async () => {
    await edge.serve({ upserts: [aProxy("gone.svc.localhost", nobody)] });
    const [page, json] = await Promise.all([
      ask(edge.http, "gone.svc.localhost", "/", { headers: { accept: "text/html,*/*" } }),
      ask(edge.http, "gone.svc.localhost", "/", { method: "POST", body: "x", headers: { accept: "application/json" } }),
    ]);
    expect(page).toMatchObject({ status: 502, headers: { "content-type": "text/html; charset=utf-8" } });
    expect(page.body).toMatch(/^<!doctype html>.*not answering/s);
    expect(json).toMatchObject({ status: 502, headers: { "content-type": "application/json; charset=utf-8" } });
    expect(JSON.parse(json.body)).toMatchObject({ ok: false, error: { code: "SITE_UNREACHABLE" } });
  });

  test("for a moment is waited for", async () => {
    const first = await startUpstream("first");
    const port = Number(first.address.split(":")[1]);
    await edge.serve({ upserts: [aProxy("moment.svc.localhost", first.address)] });
    await first[Symbol.asyncDispose]();
    const asked = ask(edge.http, "moment.svc.localhost", "/", { method: "POST", body: "kept" });
    await using second = await startUpstream("second", port);
    expect(await asked).toMatchObject({ status: 200, body: "second" });
    expect(second.last()).toMatchObject({ method: "POST", body: "kept" });
  });
});

test("a site that fails does no harm to another", async () => {
  await edge.serve({ upserts: [aProxy("broken.svc.localhost", nobody)] });
  const broken = Array.from({ length: 20 }, () => ask(edge.http, "broken.svc.localhost"));
  const well = await Promise.all(Array.from({ length: 50 }, () => ask(edge.http, host)));
  expect(well.map(({ status }) => status)).toEqual(well.map(() => 200));
  expect((await Promise.all(broken)).map(({ status }) => status)).toEqual(broken.map(() => 502));
});

describe("a request that an app ended without an answer", () => {
  /** Counts what it is asked, and hangs up on it. */
  async function startRude(): Promise<AsyncDisposable & { address: string; requests(): number }> {
    let requests = 0;
    const server = createServer((request) => {
      requests += 1;
      request.resume().once("end", () => request.socket.destroy());
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return {
      address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
      requests: () => requests,
      [Symbol.asyncDispose]: async () => void (await new Promise((resolve) => server.close(resolve))),
    };
  }

  test.each([
    { containers: 1, method: "GET", times: 1 },
    { containers: 1, method: "POST", times: 1 },
    { containers: 2, method: "GET", times: 2 },
    { containers: 2, method: "POST", times: 1 },
    { containers: 3, method: "GET", times: 2 },
  ])("is not carried out over and over: $method, $containers containers", async ({ containers, method, times }) => {
    await using rude = new AsyncDisposableStack();
    const apps = [];
    for (let n = 0; n < containers; n += 1) apps.push(rude.use(await startRude()));
    await edge.serve({ upserts: [aProxy("rude.svc.localhost", ...apps.map(({ address }) => address))] });
    const { status } = await ask(edge.http, "rude.svc.localhost", "/confirm", { method });
    expect(status).toBe(502);
    expect(apps.reduce((sum, each) => sum + each.requests(), 0)).toBe(times);
  });

  test("goes to another container", async () => {
    await using rude = await startRude();
    await using polite = await startUpstream("polite");
    await edge.serve({ upserts: [aProxy("half.svc.localhost", rude.address, polite.address)] });
    const statuses: number[] = [];
    for (let n = 0; n < 10; n += 1) {
      const answers = await Promise.all(Array.from({ length: 40 }, () => ask(edge.http, "half.svc.localhost")));
      statuses.push(...answers.map(({ status }) => status));
    }
    // Which one it goes to is by chance, the second time as well: three of four are answered, and would be two of four.
    expect(statuses.filter((status) => status === 200).length).toBeGreaterThan(250);
    expect(rude.requests()).toBeGreaterThan(0);
  });
});

test("of several containers one may die without a failed request", async () => {
  await using one = await startUpstream("one");
  await using two = await startUpstream("two");
  await edge.serve({ upserts: [aProxy("pair.svc.localhost", one.address, two.address)] });
  const ask100 = () => Promise.all(Array.from({ length: 100 }, () => ask(edge.http, "pair.svc.localhost")));
  expect(new Set((await ask100()).map(({ body }) => body))).toEqual(new Set(["one", "two"]));
  await one[Symbol.asyncDispose]();
  expect(new Set((await ask100()).map(({ body }) => body))).toEqual(new Set(["two"]));
});

describe("connections that stay open", () => {
  /** Changes another site `count` times. */
  const changeOthers = async (count: number) => {
    for (let n = 0; n < count; n += 1) {
      await edge.serve({ upserts: [aProxy("other.svc.localhost", `127.0.0.1:${n + 1}`)] });
    }
  };

  test("server-sent events arrive as they are sent, and outlive changes of other sites", async () => {
    const stream = await open("/events");
    let received = "";
    let first = "";
    stream.setEncoding("utf8").on("data", (text: string) => {
      first ||= text;
      received += text;
    });
    await waitFor(() => received.includes("data: blue\n\n"));
    // Caddy would gather two kilobytes.
    expect(first.length).toBeLessThan(1024);
    await changeOthers(20);
    const before = received.length;
    await waitFor(() => received.length > before + 50);
    expect(stream.complete).toBe(false);
    stream.destroy();
  });

  test("a WebSocket carries bytes both ways, and outlives changes of its own and other sites", async () => {
    const socket = await upgrade();
    let received = "";
    socket.on("data", (chunk: Buffer) => {
      received += chunk.toString();
    });
    socket.write("ping1");
    await waitFor(() => received === "ping1");
    await changeOthers(5);
    await using next = await startUpstream("green");
    await edge.serve({ upserts: [aProxy(host, next.address)] });
    expect((await ask(edge.http, host)).body).toBe("green");
    socket.write("ping2");
    await waitFor(() => received === "ping1ping2");
    socket.destroy();
    await edge.serve({ upserts: [aProxy(host, app.address)] });
  });

  const place = () => ({ hostname: "127.0.0.1", port: edge.http.split(":")[1], agent: false as const });

  const open = (path: string) =>
    new Promise<IncomingMessage>((resolve, reject) => {
      get({ ...place(), path, headers: { host } }, resolve).once("error", reject);
    });

  const upgrade = () =>
    new Promise<Socket>((resolve, reject) => {
      const headers = {
        host,
        Connection: "Upgrade",
        Upgrade: "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": randomBytes(16).toString("base64"),
      };
      request({ ...place(), path: "/echo", headers })
        .once("upgrade", (_, socket) => resolve(socket as Socket))
        .once("response", ({ statusCode }) => reject(new Error(`answered ${statusCode}`)))
        .once("error", reject)
        .end();
    });
});
