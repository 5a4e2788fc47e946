import { createServer, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { digestOfBundle, filesBundle } from "./testing/bundle.ts";
import { startTestEdge, type TestEdge } from "./testing/edge.ts";
import { aGate, signedIn } from "./testing/gate.ts";
import { ask } from "./testing/http.ts";
import { aStatic } from "./testing/routes.ts";
import { waitFor } from "./testing/wait-for.ts";

const host = "ruled.svc.localhost";
const spaHost = "ruled-app.svc.localhost";
const hashed = "assets/index-BxK2a9_f.js";

const files = {
  "index.html": "home",
  "about.html": "about",
  "app/index.html": "app",
  "404.html": "nothing here",
  "blog/404.html": "no such article",
  "odd ü$1.txt": "odd",
  [hashed]: "hashed",
  "secret/a.html": "secret",
  _redirects: [
    "/old /about 301",
    "/about /elsewhere",
    "/gone/* /blog/404.html 404",
    "/secret/* /404.html 404!",
    "/out/* https://example.test/:splat 307",
    "/odd /odd%20%C3%BC$1.txt 200",
    "/app/* /app/ 200",
    "/loop/* /loop/:splat 302",
    "/nowhere /not-there 404",
    "wrong",
  ].join("\n"),
  _headers: [
    ...["/*", "  X-Frame-Options: DENY", "  Link: </a>; rel=preload", "  Link: </b>; rel=preload"],
    ...["/about", "  Cache-Control: max-age=60", "  Content-Type: text/plain"],
    ...["/assets/*", "  X-Robots-Tag: noindex"],
  ].join("\n"),
};

let edge: TestEdge;
const serve = async (name: string, content: Record<string, string>, change = {}, spa = false) => {
  const bundle = await filesBundle(content);
  edge.archives.set(digestOfBundle(bundle), bundle);
  const state = await edge.serve({ upserts: [{ ...aStatic(name, digestOfBundle(bundle), spa), ...change }] });
  expect(state.error).toBe("");
};
beforeAll(async () => {
  edge = await startTestEdge();
  await serve(host, files);
});
afterAll(() => edge[Symbol.asyncDispose]());

describe("a redirect", () => {
  test.each([
    { path: "/old?a=1", status: 301, to: "/about?a=1" },
    { path: "/out/a%20b?c", status: 307, to: "https://example.test/a%20b?c" },
  ])("sends $path to $to", async ({ path, status, to }) => {
    for (const method of ["GET", "HEAD"]) {
      const answer = await ask(edge.http, host, path, { method });
      expect({ ...answer, location: answer.headers.location }).toMatchObject({ status, location: to, body: "" });
    }
  });

  test.each([
    { path: "/about", status: 200, body: "about" },
    { path: "/app/users/7?q", status: 200, body: "app" },
    { path: "/odd", status: 200, body: "odd" },
    { path: "/gone/x", status: 404, body: "no such article" },
    { path: "/secret/a", status: 404, body: "nothing here" },
    { path: "/secret/a.html", status: 404, body: "nothing here" },
    { path: "/loop/x", status: 404, body: "nothing here" },
    { path: "/blog/x", status: 404, body: "no such article" },
    { path: "/_redirects", status: 404, body: "nothing here" },
    { path: "/_headers", status: 404, body: "nothing here" },
    { path: "/", status: 200, body: "home" },
    { path: `/${hashed}`, status: 200, body: "hashed" },
  ])("leaves or shows at $path: $status", async ({ path, status, body }) => {
    expect(await ask(edge.http, host, path)).toMatchObject({ status, body });
  });

  test("to a page that is not there shows ours", async () => {
    const { status, body } = await ask(edge.http, host, "/nowhere");
    expect(status).toBe(404);
    expect(body).toContain("<!doctype html>");
  });

  test("holds for what reads, and other methods are refused as ever", async () => {
    expect((await ask(edge.http, host, "/old", { method: "POST", body: "x" })).status).toBe(405);
    expect((await ask(edge.http, host, "/old", { method: "OPTIONS" })).status).toBe(204);
  });

  test("is not for a visitor to ask the router for", async () => {
    const headers = { "x-svc-reason": "password", "x-svc-bundle": "0".repeat(64), "x-svc-host": "x.test" };
    expect(await ask(edge.http, host, "/about", { headers })).toMatchObject({ status: 200, body: "about" });
  });
});

test("headers are those of the paths, and the edge's where a site says nothing", async () => {
  const home = await ask(edge.http, host);
  expect(home.headers).toMatchObject({
    ...{ "x-frame-options": "DENY", link: "</a>; rel=preload, </b>; rel=preload", "cache-control": "no-cache" },
    ...{ vary: "Accept-Encoding", etag: expect.any(String) },
  });
  expect(home.headers["x-robots-tag"]).toBeUndefined();
  expect(Object.keys(home.headers).filter((name) => name.startsWith("x-svc") || name === "keep-alive")).toEqual([]);
  const about = await ask(edge.http, host, "/about");
  expect(about.headers).toMatchObject({ "cache-control": "max-age=60", "content-type": "text/plain" });
  expect((await ask(edge.http, host, `/${hashed}`)).headers).toMatchObject({
    ...{ "x-robots-tag": "noindex", "x-frame-options": "DENY" },
    "cache-control": "public, max-age=31536000, immutable",
  });
  const etag = home.headers.etag ?? "";
  const again = await ask(edge.http, host, "/", { headers: { "if-none-match": etag } });
  expect(again).toMatchObject({ status: 304, headers: { "x-frame-options": "DENY" } });
});

test("a rule for all paths leaves those alone that pages before a deploy ask for", async () => {
  const content = { "index.html": "one", "assets/page-1BxK2a9_.js": "file 1", _redirects: "/* /index.html 200" };
  await serve(spaHost, content, {}, true);
  await serve(spaHost, { "index.html": "two", _redirects: "/* /index.html 200" }, {}, true);
  expect(await ask(edge.http, spaHost, "/deep/link")).toMatchObject({ status: 200, body: "two" });
  expect(await ask(edge.http, spaHost, "/assets/page-1BxK2a9_.js")).toMatchObject({ status: 200, body: "file 1" });
  expect(await ask(edge.http, spaHost, "/assets/page-2BxK2a9_.js")).toMatchObject({ status: 200, body: "two" });
});

test("a site with a password says nothing of its rules", async () => {
  const gate = await aGate("open sesame");
  await edge.edge().gates.learn([gate]);
  const name = "guarded.svc.localhost";
  await serve(name, files, { gate: gate.revision });
  expect((await ask(edge.http, name, "/old")).status).toBe(401);
  const cookie = await signedIn(edge, name, "open sesame");
  expect((await ask(edge.http, name, "/old", { headers: { cookie } })).headers.location).toBe("/about");
  expect((await ask(edge.http, name, "/about", { headers: { cookie } })).headers["cache-control"]).toBe(
    "private, max-age=60",
  );
});

test("without the router the files are served without the rules, and with it again with them", async () => {
  await edge.stopRouter();
  expect(await ask(edge.http, host, "/about")).toMatchObject({ status: 200, body: "about" });
  expect(await ask(edge.http, host, "/old")).toMatchObject({ status: 404, body: "nothing here" });
  await edge.startRouter();
  await waitFor(async () => (await ask(edge.http, host, "/old")).status === 301);
});

test.each(["GET", "POST"])(
  "a router that takes questions and says nothing keeps nobody from the files: %s",
  async (method) => {
    await edge.stopRouter();
    const { host: at, port } = edge.config.pagesListen;
    const mute = createServer((socket) => socket.on("error", () => {}));
    const sockets = new Set<Socket>();
    mute.on("connection", (socket) => sockets.add(socket));
    await new Promise<void>((resolve) => mute.listen(port, at, resolve));
    // As without any, whatever has become of the router meanwhile.
    const { status: withoutRules } = await ask(edge.http, host, "/about", { method });
    const answers = await Promise.all(Array.from({ length: 20 }, () => ask(edge.http, host, "/about", { method })));
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => mute.close(resolve));
    expect(new Set([withoutRules, ...answers.map(({ status }) => status)])).toEqual(
      new Set([method === "GET" ? 200 : 405]),
    );
    await edge.startRouter();
    await waitFor(async () => (await ask(edge.http, host, "/old")).status === 301);
  },
);

test("a deploy without rules ends them", async () => {
  await serve(host, { "index.html": "home", "404.html": "nothing here" });
  expect((await ask(edge.http, host, "/old")).status).toBe(404);
  expect((await ask(edge.http, host)).headers["x-frame-options"]).toBeUndefined();
});
