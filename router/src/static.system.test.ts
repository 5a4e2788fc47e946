import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { brotliCompressSync, brotliDecompressSync, gzipSync } from "node:zlib";
import type { Route } from "@svc/proto/edge";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { digestOfBundle, filesBundle } from "./testing/bundle.ts";
import { startTestEdge, type TestEdge } from "./testing/edge.ts";
import { aGate, signedIn } from "./testing/gate.ts";
import { ask, askRaw } from "./testing/http.ts";
import { aStatic } from "./testing/routes.ts";

const host = "docs.svc.localhost";
const spaHost = "app.svc.localhost";
const bareHost = "bare.svc.localhost";
const style = "body{color:#123456}".repeat(200);

const files: Record<string, string | Buffer> = {
  "./index.html": "home",
  "about.html": "about",
  "guide/index.html": "guide",
  "guide/start.html": "start",
  "guide.html": "guide file",
  "team/index.html": "team",
  "what?#/index.html": "odd directory",
  "with space ü/index.html": "spaced",
  "404.html": "nothing here",
  "blog/404.html": "no such article",
  "blog/a.html": "article",
  "robots.txt": "User-agent: *",
  "style.css": style,
  "style.css.br": brotliCompressSync(style),
  "style.css.gz": gzipSync(style),
  "assets/index-BxK2a9_f.js": "hashed",
  "assets/logo.png": "not hashed",
  "_astro/hoisted.abc.js": "by astro",
  "font.woff2": "font",
  "app.webmanifest": "{}",
  "with space & ü.txt": "odd name",
  "50%25.txt": "percent",
  "{http.request.host}.txt": "braces",
  "star*.html": "star",
  "what?#.txt": "question",
  ".env": "SECRET=1",
  ".svc/manifest.json": "{}",
  "guide/.hidden": "hidden",
  ".well-known/assetlinks.json": "[]",
};

let edge: TestEdge;
beforeAll(async () => {
  edge = await startTestEdge();
  const bundle = await filesBundle(files);
  const bare = await filesBundle({ "index.html": "bare home", "docs/index.html": "bare docs" });
  const digest = digestOfBundle(bundle);
  const bareDigest = digestOfBundle(bare);
  edge.archives.set(digest, bundle).set(bareDigest, bare);
  // Beside the bundles, where a path that climbs would arrive.
  await mkdir(join(edge.config.dir, "bundles"), { recursive: true });
  await writeFile(join(edge.config.dir, "bundles", "secret.txt"), "secret");
  await writeFile(join(edge.config.dir, "secret.txt"), "secret");
  const state = await edge.serve({
    upserts: [aStatic(host, digest), aStatic(spaHost, bareDigest, true), aStatic(bareHost, bareDigest)],
  });
  expect(state.error).toBe("");
});
afterAll(() => edge[Symbol.asyncDispose]());

test.each([
  { path: "/", body: "home" },
  { path: "/index.html", body: "home" },
  { path: "/?q=1", body: "home" },
  { path: "/about", body: "about" },
  { path: "/about.html", body: "about" },
  { path: "/about?x=/../y", body: "about" },
  { path: "/team/", body: "team" },
  { path: "/team/?q=1", body: "team" },
  { path: "/guide", body: "guide file" },
  { path: "/guide/", body: "guide" },
  { path: "/guide/start", body: "start" },
  { path: "/guide/../about", body: "about" },
  { path: "/robots.txt", body: "User-agent: *" },
  { path: "/with%20space%20%26%20%C3%BC.txt", body: "odd name" },
  { path: "/50%2525.txt", body: "percent" },
  { path: "/%7Bhttp.request.host%7D.txt", body: "braces" },
  { path: "/star*", body: "star" },
  { path: "/what%3F%23.txt?x", body: "question" },
  { path: "//about", body: "about" },
  { path: "/.well-known/assetlinks.json", body: "[]" },
])("$path is served", async ({ path, body }) => {
  expect(await ask(edge.http, host, path)).toMatchObject({ status: 200, body });
});

test.each([
  { path: "/about/", to: "/about" },
  { path: "/about/?a=%20b", to: "/about?a=%20b" },
  { path: "/robots.txt/", to: "/robots.txt" },
  { path: "/team", to: "/team/" },
  { path: "/team?a=%20b&c=/d/", to: "/team/?a=%20b&c=/d/" },
  { path: "/what%3F%23?x", to: "/what%3F%23/?x" },
  { path: "/with%20space%20%C3%BC", to: "/with%20space%20%C3%BC/" },
  { path: "/%74eam", to: "/%74eam/" },
  // Names a path of this host, and no host.
  { path: "//team", to: "//team/" },
])("$path moves to $to on the same host", async ({ path, to }) => {
  for (const method of ["GET", "HEAD"]) {
    const { status, headers, body } = await ask(edge.http, `${host}:8080`, path, { method });
    expect({ status, location: headers.location, body }).toEqual({
      ...{ status: 308, location: `http://${host}:8080${to}`, body: "" },
    });
  }
});

test("a directory is not moved to for what only reads what is allowed, or may not be done", async () => {
  expect((await ask(edge.http, host, "/team", { method: "OPTIONS" })).status).toBe(204);
  expect((await ask(edge.http, host, "/team", { method: "POST" })).status).toBe(405);
});

test("a directory of a single-page app moves, too, and its other paths are its index", async () => {
  expect(await ask(edge.http, spaHost, "/docs")).toMatchObject({
    status: 308,
    headers: { location: `http://${spaHost}/docs/` },
  });
  expect(await ask(edge.http, spaHost, "/docs/")).toMatchObject({ status: 200, body: "bare docs" });
  expect(await ask(edge.http, spaHost, "/docs/deep")).toMatchObject({ status: 200, body: "bare home" });
});

test.each([
  "/nothing",
  "/nothing/",
  "/assets/",
  "/assets",
  "/guide/nothing.html",
  "/.env",
  "/%2eenv",
  "/.svc/manifest.json",
  "/.svc",
  "//.svc/manifest.json",
  "/guide/.hidden",
  "/../secret.txt",
  "/%2e%2e/secret.txt",
  "/..%2fsecret.txt",
  "/guide/..%2f..%2f..%2fsecret.txt",
  "/..%5csecret.txt",
  "/s*.txt",
  "/r[n-p]bots.txt",
  "/robot?.txt",
  "//evil.test/",
  "/index.html%00",
])("%s is the site's own 404 page", async (path) => {
  const answer = await ask(edge.http, host, path, { headers: { "if-none-match": "*", range: "bytes=0-1" } });
  expect(answer).toMatchObject({ status: 404, body: "nothing here", headers: { "cache-control": "no-cache" } });
  expect(answer.headers.etag).toBeUndefined();
});

test.each(["/blog/nothing", "/blog/2024/nothing", "/blog/", "/blog/1/2/3/4/5/6/7/"])(
  "%s is the 404 page of the directory that is nearest to it",
  async (path) => {
    expect(await ask(edge.http, host, path)).toMatchObject({ status: 404, body: "no such article" });
  },
);

test("a site without a 404 page shows ours", async () => {
  const answer = await ask(edge.http, bareHost, "/nothing");
  expect(answer).toMatchObject({ status: 404, headers: { "cache-control": "no-store" } });
  expect(answer.body).toContain("Page not found");
  const json = await ask(edge.http, bareHost, "/nothing", { headers: { accept: "application/json" } });
  expect(JSON.parse(json.body)).toMatchObject({ ok: false, error: { code: "PAGE_NOT_FOUND" } });
});

test.each(["/", "/deep/link", "/deep/link/", "/missing.js", "/.env"])(
  "a single-page app answers %s with its index",
  async (path) => {
    expect(await ask(edge.http, spaHost, path)).toMatchObject({
      status: 200,
      body: "bare home",
      headers: { "cache-control": "no-cache", "content-type": "text/html; charset=utf-8" },
    });
  },
);

describe("methods", () => {
  test("HEAD gives what GET gives, without the body", async () => {
    const get = await ask(edge.http, host, "/about");
    const head = await ask(edge.http, host, "/about", { method: "HEAD" });
    expect(head).toMatchObject({ status: 200, body: "" });
    for (const name of ["etag", "content-length", "content-type", "cache-control"]) {
      expect(head.headers[name]).toBe(get.headers[name]);
    }
  });

  test("OPTIONS says what is allowed, and everything else is refused", async () => {
    const allow = "GET, HEAD, OPTIONS";
    expect(await ask(edge.http, host, "/", { method: "OPTIONS" })).toMatchObject({ status: 204, headers: { allow } });
    const post = await ask(edge.http, host, "/", { method: "POST", body: "x".repeat(100_000) });
    expect(post).toMatchObject({ status: 405, headers: { allow } });
  });
});

describe("caching", () => {
  test.each([
    { path: "/", value: "no-cache" },
    { path: "/about", value: "no-cache" },
    { path: "/style.css", value: "no-cache" },
    { path: "/assets/logo.png", value: "no-cache" },
    { path: "/assets/index-BxK2a9_f.js", value: "public, max-age=31536000, immutable" },
    { path: "/_astro/hoisted.abc.js", value: "public, max-age=31536000, immutable" },
  ])("$path: $value", async ({ path, value }) => {
    expect((await ask(edge.http, host, path)).headers["cache-control"]).toBe(value);
  });

  test("the ETag stands for the content, and nothing shows a date", async () => {
    const first = await ask(edge.http, host, "/about");
    expect(first.headers["last-modified"]).toBeUndefined();
    const etag = first.headers.etag ?? "";
    expect(await ask(edge.http, host, "/about", { headers: { "if-none-match": etag } })).toMatchObject({
      status: 304,
      body: "",
      headers: { etag },
    });
    for (const date of ["Sat, 01 Jan 2000 00:00:00 GMT", "Fri, 01 Jan 2100 00:00:00 GMT"]) {
      const headers = { "if-modified-since": date, "if-unmodified-since": date };
      expect((await ask(edge.http, host, "/about", { headers })).status).toBe(200);
    }

    // Another bundle: about.html is the same, the others have other content of the same size.
    const changed = await filesBundle({ ...files, "guide.html": "GUIDE FILE" });
    const digest = digestOfBundle(changed);
    edge.archives.set(digest, changed);
    await edge.serve({ upserts: [aStatic("next.svc.localhost", digest)] });
    expect((await ask(edge.http, "next.svc.localhost", "/about")).headers.etag).toBe(etag);
    const [before, after] = await Promise.all([
      ask(edge.http, host, "/guide"),
      ask(edge.http, "next.svc.localhost", "/guide"),
    ]);
    expect(after.body).toBe("GUIDE FILE");
    expect(after.headers.etag).not.toBe(before.headers.etag);
  });

  test("a range is a part of the file", async () => {
    expect(await ask(edge.http, host, "/robots.txt", { headers: { range: "bytes=0-3" } })).toMatchObject({
      status: 206,
      body: "User",
    });
  });
});

describe("compressed siblings", () => {
  const get = (accept: string) =>
    askRaw(
      edge.http,
      `GET /style.css HTTP/1.1\r\nHost: ${host}\r\nAccept-Encoding: ${accept}\r\nConnection: close\r\n\r\n`,
    );

  test.each([
    { accepts: "gzip, deflate, br", encoding: "br" },
    { accepts: "gzip", encoding: "gzip" },
    { accepts: "identity", encoding: undefined },
  ])("to a browser that accepts $accepts: $encoding", async ({ accepts, encoding }) => {
    const answer = await get(accepts);
    expect(/^content-encoding: (.*)\r$/im.exec(answer)?.[1]).toBe(encoding);
    expect(answer).toMatch(/^content-type: text\/css; charset=utf-8\r$/im);
    expect(answer).toMatch(/^vary: accept-encoding\r$/im);
    const body = Buffer.from(answer.slice(answer.indexOf("\r\n\r\n") + 4), "latin1");
    if (encoding === "br") expect(brotliDecompressSync(body).toString()).toBe(style);
    if (encoding === undefined) expect(body.toString()).toBe(style);
  });

  test("have an ETag of their own", async () => {
    const etags = await Promise.all(["br", "gzip", "identity"].map(get));
    expect(new Set(etags.map((answer) => /^etag: (.*)\r$/im.exec(answer)?.[1])).size).toBe(3);
  });
});

test.each([
  { path: "/font.woff2", type: "font/woff2" },
  { path: "/app.webmanifest", type: "application/manifest+json" },
  { path: "/robots.txt", type: "text/plain; charset=utf-8" },
  { path: "/about", type: "text/html; charset=utf-8" },
  { path: "/assets/index-BxK2a9_f.js", type: "text/javascript; charset=utf-8" },
])("$path is $type", async ({ path, type }) => {
  expect((await ask(edge.http, host, path)).headers["content-type"]).toBe(type);
});

describe("after a deploy", () => {
  const site = "deployed.svc.localhost";
  const asset = (n: number) => `/assets/page-${n}BxK2a9_.js`;
  const deploy = async (n: number, change: Partial<Route> = {}) => {
    const bundle = await filesBundle({
      "index.html": `page ${n}`,
      [asset(n).slice(1)]: `file ${n}`,
      "style.css": `${n}`,
    });
    edge.archives.set(digestOfBundle(bundle), bundle);
    await edge.serve({ upserts: [{ ...aStatic(site, digestOfBundle(bundle)), ...change }] });
  };
  const statusOf = async (n: number) => (await ask(edge.http, site, asset(n))).status;

  test("pages that visitors have open find their files, of the last three, and nothing else of that time", async () => {
    for (const n of [1, 2, 3, 4]) await deploy(n);
    expect(await ask(edge.http, site)).toMatchObject({ body: "page 4" });
    expect(await ask(edge.http, site, "/style.css")).toMatchObject({ body: "4" });
    for (const n of [4, 3, 2, 1]) {
      expect(await ask(edge.http, site, asset(n))).toMatchObject({
        status: 200,
        body: `file ${n}`,
        headers: { "cache-control": "public, max-age=31536000, immutable" },
      });
    }
    await deploy(5);
    expect(await statusOf(1)).toBe(404);
    expect(await statusOf(2)).toBe(200);
  });

  test("that still holds once the router was restarted and its memory lost", async () => {
    await edge.stopRouter();
    await rm(edge.config.tableDir, { recursive: true });
    await edge.startRouter();
    expect(await statusOf(4)).toBe(200);
    expect(await statusOf(5)).toBe(200);
  });

  test("a site with a password gives its files to nobody without", async () => {
    const gate = await aGate("open sesame");
    await edge.edge().gates.learn([gate]);
    await deploy(6, { gate: gate.revision });
    for (const n of [5, 6]) expect(await statusOf(n)).toBe(401);
    const cookie = await signedIn(edge, site, "open sesame");
    for (const n of [5, 6])
      expect(await ask(edge.http, site, asset(n), { headers: { cookie } })).toMatchObject({
        ...{ status: 200, body: `file ${n}`, headers: { "cache-control": "private, max-age=31536000, immutable" } },
      });
  });

  test("whoever gets the name gets none of the files of whoever had it", async () => {
    await deploy(7, { projectId: "p2" });
    expect(await statusOf(7)).toBe(200);
    expect(await statusOf(6)).toBe(404);
  });
});
