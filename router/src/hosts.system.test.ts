import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { pageHtml, pages } from "./pages/page.ts";
import { startTestEdge, type TestEdge } from "./testing/edge.ts";
import { ask, askRaw } from "./testing/http.ts";
import { aPage, aProxy, aRedirect } from "./testing/routes.ts";
import { startUpstream, type Upstream } from "./testing/upstream.ts";

const host = "shop.svc.localhost";
let edge: TestEdge;
let app: Upstream;
beforeAll(async () => {
  edge = await startTestEdge();
  app = await startUpstream("app");
  await edge.serve({
    upserts: [
      aProxy(host, app.address),
      aPage("stopped.svc.localhost", "STOPPED"),
      aPage("suspended.svc.localhost", "SUSPENDED"),
      aPage("empty.svc.localhost", "EMPTY"),
      aRedirect("www.shop.test", "shop.test"),
      aProxy("shop.test", app.address),
    ],
  });
});
afterAll(async () => {
  await edge[Symbol.asyncDispose]();
  await app[Symbol.asyncDispose]();
});

test.each([
  { site: "unknown.svc.localhost", page: pages.unknown },
  { site: "svc.localhost", page: pages.unknown },
  { site: "a.shop.svc.localhost", page: pages.unknown },
  { site: "127.0.0.1", page: pages.unknown },
  { site: "stopped.svc.localhost", page: pages.stopped },
  { site: "suspended.svc.localhost", page: pages.suspended },
  { site: "empty.svc.localhost", page: pages.empty },
])("$site shows $page.code, to people and to programs", async ({ site, page }) => {
  for (const method of ["GET", "POST", "DELETE"]) {
    const body = method === "GET" ? {} : { body: "x".repeat(10_000) };
    const answer = await ask(edge.http, site, "/any/path?q", { method, ...body });
    expect(answer).toMatchObject({
      status: page.status,
      body: pageHtml(page),
      headers: { "cache-control": "no-store", "content-type": "text/html; charset=utf-8" },
    });
    expect(answer.headers["retry-after"]).toBe(page.retryAfterSeconds?.toString());
  }
  const json = await ask(edge.http, site, "/", { headers: { accept: "application/json, text/plain, */*" } });
  expect(json.status).toBe(page.status);
  expect(JSON.parse(json.body)).toEqual({ ok: false, error: { code: page.code, message: page.text } });
  expect(await ask(edge.http, site, "/", { method: "HEAD" })).toMatchObject({ status: page.status, body: "" });
});

describe("a host that redirects", () => {
  const to = (visited: string, path: string, init?: Parameters<typeof ask>[3]) => ask(edge.http, visited, path, init);

  test.each(["GET", "HEAD", "POST", "PUT", "DELETE"])("keeps path, query and method of a %s", async (method) => {
    const body = method === "GET" || method === "HEAD" ? {} : { body: "x".repeat(10_000) };
    const answer = await to("www.shop.test", "/a%2Fb//c?d=%20e&d=f&", { method, ...body });
    expect(answer).toMatchObject({
      status: 308,
      body: "",
      headers: { location: "http://shop.test/a%2Fb//c?d=%20e&d=f&", "cache-control": "no-cache" },
    });
  });

  test.each([
    { visited: "www.shop.test:8080", path: "/", location: "http://shop.test:8080/" },
    { visited: "www.shop.test:", path: "/a", location: "http://shop.test/a" },
    { visited: "www.shop.test:123456", path: "/a", location: "http://shop.test/a" },
    { visited: "www.shop.test", path: "/?", location: "http://shop.test/?" },
    { visited: "www.shop.test:443", path: "//evil.test/", location: "http://shop.test:443//evil.test/" },
    { visited: "www.shop.test", path: "/{http.request.host}", location: "http://shop.test/%7Bhttp.request.host%7D" },
  ])("sends $visited$path to $location", async ({ visited, path, location }) => {
    expect(await to(visited, path)).toMatchObject({ status: 308, headers: { location } });
  });

  test("in another spelling first moves to the right one", async () => {
    expect(await to("WWW.shop.test.", "/a")).toMatchObject({ headers: { location: "http://www.shop.test/a" } });
  });
});

describe("another spelling of a host", () => {
  test.each(["SHOP.svc.localhost", "Shop.Svc.LocalHost", "shop.svc.localhost.", "SHOP.SVC.LOCALHOST."])(
    "%s moves to the right one",
    async (spelled) => {
      const answer = await ask(edge.http, `${spelled}:81`, "//evil.test/a?b", { method: "POST", body: "x" });
      expect(answer).toMatchObject({ status: 308, headers: { location: `http://${host}:81//evil.test/a?b` } });
    },
  );

  test("of a host that does not exist is no site", async () => {
    expect(await ask(edge.http, "Unknown.svc.localhost")).toMatchObject({ status: 404, body: pageHtml(pages.unknown) });
  });
});

describe("a hostile Host", () => {
  const hostile = [
    "",
    ".",
    "..",
    "../shop.svc.localhost",
    "x/../shop.svc.localhost",
    "shop.svc.localhost/../shop.svc.localhost",
    "*",
    "*.svc.localhost",
    "sho?.svc.localhost",
    "[a-z]hop.svc.localhost",
    "{shop,x}.svc.localhost",
    "shop.svc.localhost/*",
    "%73hop.svc.localhost",
    "shop%2esvc.localhost",
    "shop.svc.localhost%00",
    "shop.svc.localhost\\",
    "shop_svc.localhost",
    "-shop.svc.localhost",
    "shop..svc.localhost",
    ".shop.svc.localhost",
    "shop.svc.localhost..",
    "shop.svc.localhost:80:80",
    "shop.svc.localhost@evil.test",
    "evil.test#shop.svc.localhost",
    "{http.request.uri.path}",
    "{env.HOME}",
    "{http.regexp.entry.2}",
    ".ready",
    "localhost",
    "[::1]",
    "[shop.svc.localhost]",
    `${"a".repeat(300)}.svc.localhost`,
    "xn--shp-1na.svc.localhost",
    "sh\u00f6p.svc.localhost",
    "shop.svc.localhost,evil.test",
  ];

  test.each(hostile)("%j reaches no site", async (value) => {
    const before = app.requests();
    const answer = await askRaw(
      edge.http,
      `GET /shop.svc.localhost HTTP/1.1\r\nHost: ${value}\r\nConnection: close\r\n\r\n`,
    );
    expect(Number(answer.split(" ")[1])).toBeGreaterThanOrEqual(400);
    expect(answer).not.toContain("X-Name");
    expect(app.requests()).toBe(before);
  });

  test.each([
    { what: "no Host at all", head: "GET / HTTP/1.1\r\n" },
    { what: "no Host, in HTTP/1.0", head: "GET / HTTP/1.0\r\n" },
    { what: "two Hosts", head: `GET / HTTP/1.1\r\nHost: ${host}\r\nHost: other.test\r\n` },
    {
      what: "a Host and another authority in the request line",
      head: `GET http://unknown.test/ HTTP/1.1\r\nHost: ${host}\r\n`,
    },
    {
      what: "both kinds of length",
      head: `POST / HTTP/1.1\r\nHost: ${host}\r\nTransfer-Encoding: xchunked\r\nContent-Length: 4\r\n`,
    },
    { what: "a space before the colon", head: `GET / HTTP/1.1\r\nHost : ${host}\r\n` },
    { what: "CONNECT", head: `CONNECT ${host}:80 HTTP/1.1\r\nHost: ${host}\r\n` },
    { what: "TRACE", head: `TRACE / HTTP/1.1\r\nHost: ${host}\r\n` },
    { what: "headers without end", head: `GET / HTTP/1.1\r\nHost: ${host}\r\nX-A: ${"a".repeat(80_000)}\r\n` },
  ])("with $what reaches no site", async ({ head }) => {
    const before = app.requests();
    const answer = await askRaw(edge.http, `${head}Connection: close\r\n\r\n`);
    expect(Number(answer.split(" ")[1])).toBeGreaterThanOrEqual(400);
    expect(app.requests()).toBe(before);
  });

  test("the port and the internal header of a visitor change nothing", async () => {
    expect((await ask(edge.http, `${host}:12345`)).body).toBe("app");
    const asked = await ask(edge.http, "unknown.svc.localhost", "/ask?domain=shop.svc.localhost", {
      headers: { "x-svc-reason": "host", "x-svc-host": host },
    });
    expect(asked).toMatchObject({ status: 404, body: pageHtml(pages.unknown) });
    const spelled = await ask(edge.http, "Unknown.svc.localhost", `/ask?domain=${host}`, {
      headers: { "x-svc-reason": "", "x-svc-host": host, Connection: "X-Svc-Reason" },
    });
    expect(spelled).toMatchObject({ status: 404, body: pageHtml(pages.unknown) });
  });
});
