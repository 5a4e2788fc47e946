import { readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { get } from "node:http";
import { connect as connectHttp2 } from "node:http2";
import { join } from "node:path";
import type { Gate } from "@svc/proto/edge";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { digestOfBundle, filesBundle } from "../testing/bundle.ts";
import { startTestEdge, type TestEdge } from "../testing/edge.ts";
import { aGate, sendPassword, signedIn } from "../testing/gate.ts";
import { ask, askRaw } from "../testing/http.ts";
import { aPage, aProxy, aRedirect, aStatic, guarded } from "../testing/routes.ts";
import { startUpstream, type Upstream } from "../testing/upstream.ts";
import { waitFor } from "../testing/wait-for.ts";
import { cookieName, dayOf, tokenOf } from "./token.ts";

const shop = "shop.svc.localhost";
const docs = "docs.svc.localhost";
const open = "open.svc.localhost";
const hosts = {
  production: shop,
  preview: "preview-shop--7.svc.localhost",
  dev: "dev-shop.svc.localhost",
  old: "old-shop.svc.localhost",
  stopped: "stopped-shop.svc.localhost",
};
let edge: TestEdge;
let app: Upstream;
let gate: Gate;
let docsGate: Gate;
let cookie: string;

beforeAll(async () => {
  edge = await startTestEdge();
  app = await startUpstream("secret");
  const bundle = await filesBundle({ "index.html": "<p>secret</p>", "assets/app-3f2a1b9c.js": "secret()" });
  edge.archives.set(digestOfBundle(bundle), bundle);
  gate = await aGate("open sesame");
  docsGate = await aGate("open sesame", "p2");
  await edge.edge().gates.learn([gate, docsGate]);
  const { revision } = gate;
  await edge.serve({
    upserts: [
      ...[hosts.production, hosts.preview, hosts.dev].map((host) => ({
        ...guarded(aProxy(host, app.address), revision),
        channel: host === hosts.preview ? "preview" : "production",
      })),
      guarded(aRedirect(hosts.old, shop), revision),
      guarded(aPage(hosts.stopped, "STOPPED"), revision),
      guarded({ ...aStatic(docs, digestOfBundle(bundle)), projectId: "p2" }, docsGate.revision),
      aProxy(open, app.address),
    ],
  });
  cookie = await signedIn(edge, shop, "open sesame");
});

afterAll(async () => {
  await edge[Symbol.asyncDispose]();
  await app[Symbol.asyncDispose]();
});

const isGatePage = (body: string) => body.includes('action="/_svc/password"') && !body.includes("secret");

test("what opens production opens no preview, and the other way round", async () => {
  const ofPreview = await signedIn(edge, hosts.preview, "open sesame");
  const statusOf = async (host: string, shown: string) =>
    (await ask(edge.http, host, "/", { headers: { cookie: shown } })).status;
  expect(await statusOf(hosts.production, cookie)).toBe(200);
  expect(await statusOf(hosts.preview, ofPreview)).toBe(200);
  expect(await statusOf(hosts.preview, cookie)).toBe(401);
  expect(await statusOf(hosts.production, ofPreview)).toBe(401);
});

test("a custom domain asks as well, its cookie is of that host alone, and its www leads there before anybody is asked", async () => {
  const [custom, www] = ["corner.example", "www.corner.example"];
  await edge.serve({ upserts: [guarded(aProxy(custom, app.address), gate.revision), aRedirect(www, custom)] });
  const asked = await ask(edge.http, custom, "/");
  expect([asked.status, isGatePage(asked.body)]).toEqual([401, true]);
  const [given] = (await sendPassword(edge, custom, "open sesame")).headers["set-cookie"] ?? [];
  expect(given).not.toMatch(/domain=/i);
  const shown = { headers: { cookie: given?.split(";")[0] ?? "" } };
  expect((await ask(edge.http, custom, "/", shown)).status).toBe(200);
  const led = await ask(edge.http, www, "/a?b=c");
  expect([led.status, led.headers["location"]]).toEqual([308, expect.stringContaining(`://${custom}`)]);
  expect(led.headers["set-cookie"]).toBeUndefined();
});

describe("nobody passes without the password", () => {
  test.each(["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "PURGE"])("%s", async (method) => {
    const before = app.requests();
    const answer = await ask(edge.http, shop, "/", { method, ...(method === "GET" ? {} : { body: "hello" }) });
    expect(answer.status).toBe(401);
    expect(isGatePage(answer.body)).toBe(true);
    expect(app.requests()).toBe(before);
  });

  test.each(Object.values(hosts).concat(docs))("on %s, whatever it serves", async (host) => {
    const answer = await ask(edge.http, host, "/");
    expect(answer.status).toBe(401);
    expect(answer.headers["location"]).toBeUndefined();
    expect(isGatePage(answer.body)).toBe(true);
  });

  test.each([
    ...["/", "/index.html", "/assets/app-3f2a1b9c.js", "/favicon.ico", "/robots.txt", "/.well-known/security.txt"],
    ...[
      "/api/x?svc_error=1",
      "//",
      "//x",
      "/%2e%2e/",
      "/..",
      "/./",
      "/a/%2e%2e/",
      "/%00",
      "/*",
      "/?",
      "/index.html%20",
    ],
    ...[
      "/_svc/",
      "/_svc/password",
      "/_svc/password/",
      "/_svc/password/x",
      "/_svc/./password",
      "/_svc/../",
      "/_SVC/password",
    ],
    ...[
      "/_svc/%70assword",
      "/_svc%2fpassword",
      "/_svc/password%2f..%2f..%2f",
      "/_svc/password/../../",
      "/x/_svc/password",
    ],
    ...["/_svc/password;x", "/_svc/password?x=/", "/ask?domain=shop.svc.localhost", "/.gate/x", "/.ready"],
  ])("at %s", async (path) => {
    const before = app.requests();
    for (const host of [shop, docs]) {
      const answer = await ask(edge.http, host, path);
      expect(answer.status).toBe(401);
      expect(isGatePage(answer.body)).toBe(true);
    }
    expect(app.requests()).toBe(before);
  });

  test.each([
    ...[
      "",
      "x",
      "*",
      "?",
      "..",
      ".",
      "/",
      "../*",
      "%2e%2e",
      "[A-Za-z0-9_-]",
      "{http.request.host}",
      "true",
      "null",
      "<nil>",
    ],
    ...["A".repeat(43), "_".repeat(43), "*".repeat(43), "?".repeat(43), "A".repeat(42), "A".repeat(44)],
  ])("with the cookie %s", async (value) => {
    for (const text of [value, `"${value}"`]) {
      const answer = await ask(edge.http, shop, "/", { headers: { cookie: `__Host-svc_site_auth=${text}` } });
      expect(answer.status).toBe(401);
    }
  });

  test("with a real value that was changed, moved or hidden", async () => {
    const value = cookie.slice("__Host-svc_site_auth=".length);
    const flipped = value.startsWith("A") ? `B${value.slice(1)}` : `A${value.slice(1)}`;
    const swapped = [...value].map((c) => (c === c.toLowerCase() ? c.toUpperCase() : c.toLowerCase())).join("");
    const tricks = [
      ...[
        flipped,
        swapped,
        value.slice(1),
        `${value}A`,
        `${value}=`,
        `${value},x`,
        `./${value}`,
        `x/../${value}`,
        `%${value}`,
      ],
    ].map((text) => `__Host-svc_site_auth=${text}`);
    tricks.push(`__Host-svc_site_auth=x; __Host-svc_site_auth=${value}`, `x__Host-svc_site_auth=${value}`);
    tricks.push(
      `__Host-svc_site_auth_=${value}`,
      `__Host-svc_site_auth:${value}`,
      `${value}`,
      `a="; __Host-svc_site_auth=x; b=${value}"`,
    );
    const passed: string[] = [];
    for (const trick of tricks) {
      const { status } = await ask(edge.http, shop, "/", { headers: { cookie: trick } });
      if (status !== 401) passed.push(trick);
    }
    expect(passed).toEqual([]);
    for (const headers of [
      { authorization: `Bearer ${value}` },
      { "x-svc-site-auth": value },
      { "x-svc-gate": "passed" },
      { "x-svc-reason": "password" },
      { "x-forwarded-host": open },
      { "x-original-url": "/_svc/password" },
      { "x-forwarded-uri": "/_svc/password" },
      { "x-http-method-override": "POST" },
      { connection: "cookie", cookie: "__Host-svc_site_auth=x" },
    ]) {
      expect((await ask(edge.http, shop, "/", { headers })).status).toBe(401);
    }
  });

  test.each([
    ["in capitals", "GET / HTTP/1.1\r\nHost: SHOP.svc.localhost\r\n"],
    ["with a final dot", "GET / HTTP/1.1\r\nHost: shop.svc.localhost.\r\n"],
    ["with a port", "GET / HTTP/1.1\r\nHost: shop.svc.localhost:1\r\n"],
    ["with an impossible port", "GET / HTTP/1.1\r\nHost: shop.svc.localhost:99999999\r\n"],
    ["in the request line", "GET http://shop.svc.localhost/ HTTP/1.1\r\nHost: open.svc.localhost\r\n"],
    ["twice", "GET / HTTP/1.1\r\nHost: open.svc.localhost\r\nHost: shop.svc.localhost\r\n"],
    ["of the old protocol", "GET / HTTP/1.0\r\nHost: shop.svc.localhost\r\n"],
    ["with user and password", "GET / HTTP/1.1\r\nHost: open.svc.localhost@shop.svc.localhost\r\n"],
  ])("with a Host %s", async (_, head) => {
    const before = app.requests();
    const answer = await askRaw(edge.http, `${head}Connection: close\r\n\r\n`);
    expect(answer).not.toMatch(/^HTTP\/1\.[01] 2/);
    expect(answer).not.toContain("secret");
    expect(app.requests()).toBe(before);
  });

  test("as a WebSocket, a HEAD, or with a body that comes slowly", async () => {
    const before = app.requests();
    const upgrade = {
      connection: "Upgrade",
      upgrade: "websocket",
      "sec-websocket-key": "x",
      "sec-websocket-version": "13",
    };
    expect((await ask(edge.http, shop, "/echo", { headers: upgrade })).status).toBe(401);
    const head = await ask(edge.http, shop, "/", { method: "HEAD" });
    expect(head).toMatchObject({ status: 401, body: "" });
    const answer = await askRaw(
      edge.http,
      `POST / HTTP/1.1\r\nHost: ${shop}\r\nContent-Length: 1000000\r\nConnection: close\r\n\r\nhello`,
    );
    expect(answer).toMatch(/^HTTP\/1\.1 401 /);
    expect(app.requests()).toBe(before);
  });

  test("over HTTP/2, whatever the Host header says beside the authority", async () => {
    const session = connectHttp2(`https://${edge.https}`, { servername: shop, rejectUnauthorized: false });
    try {
      for (const headers of [{ ":path": "/" }, { ":path": "/", host: open }]) {
        const status = await new Promise((resolve, reject) => {
          const request = session.request({ ":authority": shop, ...headers });
          request.once("response", (answer) => resolve(answer[":status"])).once("error", reject);
          request.resume().end();
        });
        expect([400, 401]).toContain(status);
      }
    } finally {
      session.close();
    }
  });
});

describe("the page", () => {
  test("may not be kept, framed or scripted, and says where to go on when that is plain", async () => {
    const { headers, body } = await ask(edge.http, shop, "/a/b?c=1");
    expect(headers).toMatchObject({ "content-type": "text/html; charset=utf-8", "cache-control": "no-store" });
    expect(headers["content-security-policy"]).toContain("form-action 'self'");
    expect(headers["referrer-policy"]).toBe("same-origin");
    expect(headers["set-cookie"]).toBeUndefined();
    expect(body).toContain('name="next" value="/a/b?c=1"');
    expect(body).not.toContain('aria-invalid="true"');
    expect((await ask(edge.http, shop, "/a?svc_error=1")).body).toContain("That password is not right");
  });

  test.each([
    { path: '/"><script>', next: "/%22%3E%3Cscript%3E" },
    { path: "/{http.request.host}", next: "/%7Bhttp.request.host%7D" },
    { path: "/a?b=<x>&c", next: undefined },
    { path: '/a?"onx=', next: undefined },
    { path: "/a?b=1&copy", next: undefined },
    { path: "/a?'onx=", next: undefined },
    { path: "/a?{http.request.host}", next: undefined },
    { path: "/a&quot;b", next: undefined },
  ])("repeats of $path only what means nothing in HTML", async ({ path, next }) => {
    const answer = await askRaw(edge.http, `GET ${path} HTTP/1.1\r\nHost: ${shop}\r\nConnection: close\r\n\r\n`);
    expect(answer).toMatch(/^HTTP\/1\.1 401 /);
    expect(/name="next" value="([^"]*)"/.exec(answer)?.[1]).toBe(next);
    expect(answer).not.toContain("<script>");
  });

  test("is an error for programs", async () => {
    const { status, body } = await ask(edge.http, shop, "/api", { headers: { accept: "application/json" } });
    expect(status).toBe(401);
    expect(JSON.parse(body)).toMatchObject({ ok: false, error: { code: "SITE_PASSWORD_REQUIRED" } });
  });
});

describe("the right password", () => {
  test("gives the cookie of the contract and leads back", async () => {
    const { status, headers } = await sendPassword(edge, shop, "open sesame", { next: "/a?b=c" });
    expect(status).toBe(303);
    expect(headers["location"]).toBe(`http://${shop}/a?b=c`);
    expect(headers["set-cookie"]).toEqual([
      expect.stringMatching(
        /^__Host-svc_site_auth=[A-Za-z0-9_-]{43}; Path=\/; Max-Age=604800; HttpOnly; Secure; SameSite=Lax$/,
      ),
    ]);
  });

  test("leads back to the page that sent the form", async () => {
    const referer = `http://${shop}:8080/a?x=1&y=%22`;
    const { headers } = await sendPassword(edge, shop, "open sesame", { headers: { referer } });
    expect(headers["location"]).toBe(`http://${shop}/a?x=1&y=%22`);
  });

  test.each([
    ...[
      "//evil.test",
      "///evil.test/x",
      "/\\evil.test",
      "\\\\evil.test",
      "/\t/evil.test",
      "/\n/evil.test",
      "\t//evil.test",
    ],
    ...[
      "https://evil.test/",
      "http:evil.test",
      "HTTP:\\\\evil.test",
      "javascript:alert(1)",
      "data:text/html,x",
      "@evil.test",
    ],
    ...[
      ".evil.test",
      ":80@evil.test/",
      "/..//evil.test",
      "/%09/evil.test",
      "/%5cevil.test",
      "/a\r\nLocation: //evil.test",
    ],
    ...[
      "?@evil.test",
      "/\u2028/evil.test",
      "/.//evil.test",
      "//shop.svc.localhost@evil.test",
      "http://shop.svc.localhost.evil.test",
    ],
  ])("leads nowhere but to the site: %j", async (next) => {
    const { status, headers } = await sendPassword(edge, shop, "open sesame", { next });
    expect(status).toBe(303);
    expect(headers["location"]).toMatch(new RegExp(`^http://${shop.replaceAll(".", "\\.")}/`));
    expect(new URL(headers["location"] ?? "").host).toBe(shop);
  });

  test("opens app, files, previews and pages, and the site never sees the cookie", async () => {
    const theme = `theme=dark; ${cookie}; lang=de`;
    expect(await ask(edge.http, shop, "/a", { headers: { cookie: theme } })).toMatchObject({
      status: 200,
      body: "secret",
    });
    expect(app.last()?.headers.cookie?.replaceAll(" ", "")).toBe("theme=dark;lang=de");
    await ask(edge.http, shop, "/", { headers: { cookie } });
    expect(app.last()?.headers).not.toHaveProperty("cookie");
    await ask(edge.http, shop, "/", {
      headers: { cookie: `${cookie};a=b;__Host-svc_site_auth = x;__HOST-SVC_Site_Auth=y` },
    });
    expect(app.last()?.headers.cookie).toBe("a=b");
    const previewCookie = await signedIn(edge, hosts.preview, "open sesame");
    expect((await ask(edge.http, hosts.preview, "/", { headers: { cookie: previewCookie } })).status).toBe(200);
    expect((await ask(edge.http, hosts.dev, "/", { method: "POST", body: "x", headers: { cookie } })).status).toBe(200);
    expect((await ask(edge.http, hosts.stopped, "/", { headers: { cookie } })).body).toContain("stopped");
    expect((await ask(edge.http, hosts.old, "/x", { headers: { cookie } })).headers["location"]).toBe(
      `http://${shop}/x`,
    );
    const docsCookie = await signedIn(edge, docs, "open sesame");
    const script = await ask(edge.http, docs, "/assets/app-3f2a1b9c.js", { headers: { cookie: docsCookie } });
    expect(script).toMatchObject({ status: 200, body: "secret()" });
    expect(script.headers["cache-control"]).toBe("private, max-age=31536000, immutable");
  });

  test.each([
    { says: {}, becomes: "private" },
    { says: { "Cache-Control": "" }, becomes: "private" },
    { says: { "Cache-Control": "max-age=600" }, becomes: "private, max-age=600" },
    { says: { "Cache-Control": "public, max-age=600" }, becomes: "private, max-age=600" },
    { says: { "Cache-Control": "max-age=600,PUBLIC" }, becomes: "private, max-age=600" },
    { says: { "Cache-Control": 's-maxage="600", max-age=5' }, becomes: "private, max-age=5" },
    {
      says: { "Cache-Control": "max-age=5, s-maxage = 600 , must-revalidate" },
      becomes: "private, max-age=5, must-revalidate",
    },
    { says: { "Cache-Control": "private" }, becomes: "private" },
    { says: { "Cache-Control": "no-store" }, becomes: "private, no-store" },
    // Only these headers are private then.
    { says: { "Cache-Control": 'private="set-cookie, x", max-age=5' }, becomes: "private, max-age=5" },
    { says: { "Cache-Control": "x-private, max-age=5" }, becomes: "private, x-private, max-age=5" },
  ])("what the site lets caches keep is for those who are in: $says", async ({ says, becomes }) => {
    const shared = { "CDN-Cache-Control": "max-age=600", "Surrogate-Control": "max-age=600", "X-Accel-Expires": "600" };
    const query = new URLSearchParams({ ...says, ...shared, "Vendor-CDN-Cache-Control": "max-age=600" });
    const answer = await ask(edge.http, shop, `/headers?${query}`, { headers: { cookie } });
    expect(answer).toMatchObject({ status: 200, headers: { "cache-control": becomes, "x-name": "secret" } });
    const left = Object.keys(answer.headers).filter((name) => /cdn|surrogate|accel/.test(name));
    expect(left).toEqual([]);
    // Those of sites without a password stay as they are.
    const { headers } = await ask(edge.http, open, `/headers?${query}`);
    expect(headers["cache-control"]).toBe(says["Cache-Control"]);
    expect(headers).toMatchObject({ "cdn-cache-control": "max-age=600", "surrogate-control": "max-age=600" });
  });

  test("files and redirects of a guarded site are nothing for shared caches either", async () => {
    const docsCookie = await signedIn(edge, docs, "open sesame");
    for (const [host, path, sent] of [
      [docs, "/", docsCookie],
      [docs, "/index.html", docsCookie],
      [docs, "/missing", docsCookie],
      [hosts.old, "/x", cookie],
      [hosts.stopped, "/", cookie],
    ] as const) {
      const { headers } = await ask(edge.http, host, path, { headers: { cookie: sent } });
      expect([host, path, headers["cache-control"]]).toEqual([
        host,
        path,
        expect.stringMatching(/^(private|no-store)/),
      ]);
    }
  });

  test("keeps its address to itself", async () => {
    for (const [host, headers] of [
      [shop, { cookie }],
      [open, {}],
    ] as const) {
      const before = app.requests();
      const answer = await ask(edge.http, host, "/_svc/password", { headers });
      expect(answer).toMatchObject({ status: 303, headers: { location: `http://${host}/` } });
      expect(app.requests()).toBe(before);
    }
    // The password was cleared while somebody typed it.
    expect((await sendPassword(edge, open, "x")).status).toBe(303);
  });

  test("opens one project and no other, also when both have the same password", async () => {
    const docsCookie = await signedIn(edge, docs, "open sesame");
    expect((await ask(edge.http, docs, "/", { headers: { cookie } })).status).toBe(401);
    expect((await ask(edge.http, shop, "/", { headers: { cookie: docsCookie } })).status).toBe(401);
  });
});

describe("a wrong password", () => {
  test("leads back to the page, which says so, and gives no cookie", async () => {
    const { status, headers } = await sendPassword(edge, docs, "wrong", { next: "/a?b=c" });
    expect(status).toBe(303);
    expect(headers["location"]).toBe(`http://${docs}/a?b=c&svc_error=1`);
    expect(headers["set-cookie"]).toBeUndefined();
  });

  test.each(["", "Open sesame", "open sesame ", `open sesame${"\u0000"}`, "open sesame".padEnd(73)])(
    "%j is wrong",
    async (password) => {
      await edge.stopRouter();
      await edge.startRouter();
      const { headers } = await sendPassword(edge, docs, password);
      expect(headers["location"]).toContain("svc_error=1");
    },
  );

  test("after some in a row has to wait, and the site's other visitors do not", async () => {
    const statuses: number[] = [];
    for (let n = 0; n < 8; n += 1) statuses.push((await sendPassword(edge, shop, `guess ${n}`)).status);
    expect(statuses.slice(-3)).toEqual([429, 429, 429]);
    const slowed = await sendPassword(edge, shop, "open sesame", { next: '/"x' });
    expect(slowed.status).toBe(429);
    expect(Number(slowed.headers["retry-after"])).toBeGreaterThan(0);
    expect(slowed.headers["set-cookie"]).toBeUndefined();
    expect((await ask(edge.http, shop, "/", { headers: { cookie } })).status).toBe(200);
    expect((await sendPassword(edge, docs, "open sesame")).headers["set-cookie"]).toHaveLength(1);
  });

  test("a form that is too long is not read", async () => {
    const answer = await sendPassword(edge, docs, "x".repeat(20_000));
    expect(answer.status).toBe(503);
    expect((await sendPassword(edge, docs, "x".repeat(100_000))).status).toBeGreaterThanOrEqual(400);
  });
});

describe("a change", () => {
  const host = "changing.svc.localhost";
  const statusWith = async (sent: string) => (await ask(edge.http, host, "/", { headers: { cookie: sent } })).status;

  test("of the password shuts everybody out at once, and no configuration is loaded for it", async () => {
    const first = await aGate("one", "p9");
    const second = await aGate("two", "p9");
    await edge.serve({ upserts: [aProxy(host, app.address)] });
    const config = await readFile(join(edge.caddy.adminSocket, "..", "config", "caddy", "autosave.json"), "utf8");
    expect((await ask(edge.http, host)).status).toBe(200);

    // Named before its secret is here: shut, and nothing to enter.
    await edge.serve({ upserts: [guarded(aProxy(host, app.address), first.revision)] });
    expect((await ask(edge.http, host)).status).toBe(401);
    expect((await sendPassword(edge, host, "one")).status).toBe(503);
    await edge.edge().gates.learn([first]);
    const cookieOfFirst = await signedIn(edge, host, "one");
    expect(await statusWith(cookieOfFirst)).toBe(200);

    await edge.edge().gates.learn([second]);
    expect(await statusWith(cookieOfFirst)).toBe(200);
    await edge.serve({ upserts: [guarded(aProxy(host, app.address), second.revision)] });
    expect(await statusWith(cookieOfFirst)).toBe(401);
    expect((await sendPassword(edge, host, "one")).headers["location"]).toContain("svc_error");
    const cookieOfSecond = await signedIn(edge, host, "two");
    expect(await statusWith(cookieOfSecond)).toBe(200);

    // A redeploy, a stop and a start keep the sessions.
    await edge.serve({ upserts: [guarded(aPage(host, "STOPPED"), second.revision)] });
    expect(await statusWith(cookieOfSecond)).toBe(503);
    await edge.serve({ upserts: [guarded(aProxy(host, app.address), second.revision)] });
    expect(await statusWith(cookieOfSecond)).toBe(200);

    await edge.serve({ upserts: [aProxy(host, app.address)] });
    expect((await ask(edge.http, host)).status).toBe(200);
    await edge.serve({ upserts: [guarded(aProxy(host, app.address), (await aGate("two", "p9")).revision)] });
    expect(await statusWith(cookieOfSecond)).toBe(401);
    const after = await readFile(join(edge.caddy.adminSocket, "..", "config", "caddy", "autosave.json"), "utf8");
    expect(after).toBe(config);
  });

  test("that comes with files which are not there yet guards what is served meanwhile", async () => {
    const late = "late.svc.localhost";
    await edge.serve({ upserts: [aProxy(late, app.address)] });
    expect((await ask(edge.http, late)).status).toBe(200);
    await edge.serve({ upserts: [guarded(aStatic(late, `sha256:${"ab".repeat(32)}`), gate.revision)] });
    expect((await ask(edge.http, late)).status).toBe(401);
    expect(await ask(edge.http, late, "/", { headers: { cookie } })).toMatchObject({ status: 200, body: "secret" });
    await edge.serve({ removed: [late] });
  });
});

describe("restarts", () => {
  test("of router and Caddy leave the site guarded and its visitors in, without a word from control", async () => {
    await edge.stopRouter();
    expect((await ask(edge.http, shop)).status).toBe(401);
    expect((await ask(edge.http, shop, "/", { headers: { cookie } })).status).toBe(200);
    expect((await sendPassword(edge, shop, "open sesame")).status).toBe(503);

    await edge.caddy.kill();
    await edge.caddy.restart();
    await waitFor(async () => (await ask(edge.http, shop)).status === 401);
    expect((await ask(edge.http, shop, "/", { headers: { cookie } })).status).toBe(200);

    await edge.startRouter();
    expect((await ask(edge.http, shop)).status).toBe(401);
    // The same as before, unless another day has begun in UTC.
    const from = dayOf(Date.now());
    const again = await signedIn(edge, shop, "open sesame");
    expect([from, dayOf(Date.now())].map((day) => `${cookieName}=${tokenOf(gate.key, "production", day)}`)).toContain(
      again,
    );
  });

  test("of the machine bring it back from disk, where only this program can read it", async () => {
    await edge.stopRouter();
    await rm(edge.config.tableDir, { recursive: true });
    await edge.startRouter();
    expect((await ask(edge.http, shop)).status).toBe(401);
    expect((await ask(edge.http, shop, "/", { headers: { cookie } })).status).toBe(200);
    const kept = join(edge.config.dir, "gates", "gates.json");
    expect((await stat(kept)).mode & 0o777).toBe(0o600);
    for (const name of await readdir(join(edge.config.tableDir, shop))) expect(name).not.toContain(gate.passwordHash);
  });

  test("with damaged secrets nobody passes until control tells them again", async () => {
    await edge.stopRouter();
    await rm(edge.config.tableDir, { recursive: true });
    await writeFile(join(edge.config.dir, "gates", "gates.json"), "{");
    await edge.startRouter();
    expect((await ask(edge.http, shop, "/", { headers: { cookie } })).status).toBe(401);
    expect((await sendPassword(edge, shop, "open sesame")).status).toBe(503);
    await edge.edge().gates.learn([gate, docsGate]);
    expect((await ask(edge.http, shop, "/", { headers: { cookie } })).status).toBe(200);
  });
});

test("a site without a password has nothing of it", async () => {
  const sent = await ask(edge.http, open, "/x?svc_error=1", { headers: { cookie: "__Host-svc_site_auth=x; a=b" } });
  expect(sent).toMatchObject({ status: 200, body: "secret" });
  expect(app.last()).toMatchObject({ url: "/x?svc_error=1", headers: { cookie: "__Host-svc_site_auth=x; a=b" } });
  await new Promise<void>((resolve, reject) => {
    const [hostname, port] = edge.http.split(":");
    get({ hostname, port, path: "/events", headers: { host: open } }, (answer) => {
      answer.once("data", () => {
        answer.destroy();
        resolve();
      });
    }).once("error", reject);
  });
});
