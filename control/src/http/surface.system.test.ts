import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { apiEndpoints } from "../server.ts";
import { type Answer, cookieOf, type TestApi, type TestUser, testApi } from "./testing.ts";
import { rawRequest, sendRaw } from "./testing-raw.ts";

let api: TestApi;
let user: TestUser;
let key: string;
let cookie: string;
beforeAll(async () => {
  api = await testApi();
  user = await api.newUser();
  ({ key } = await api.newKey(user));
  cookie = cookieOf(api.context.config, user.session);
});
afterAll(() => api?.[Symbol.asyncDispose]());

const codeOf = ({ status, body }: Answer) => [status, body.error?.code];
const missing = "11111111-2222-4333-8444-555555555555";
const evil = "https://evil.test";
/** As bytes on the wire: fetch would tidy up the path, and sends no other host. */
const get = async (path: string, headers: string[] = []) => {
  const { host } = new URL(api.url);
  const all = headers.some((header) => header.startsWith("Host:")) ? headers : [`Host: ${host}`, ...headers];
  const answer = await sendRaw(api.url, rawRequest(`GET ${path} HTTP/1.1`, [...all, "Connection: close"]));
  const [head = "", body = ""] = answer.split("\r\n\r\n");
  return { status: Number(head.slice(9, 12)), head, body };
};

describe("every reply", () => {
  const html = { accept: "text/html" };
  const json = { "content-type": "application/json" };
  test.each([
    { what: "a success", method: "GET", path: "/healthz", status: 200 },
    { what: "a call of the API", method: "GET", path: "/api/v1/me", as: "key" as const, status: 200 },
    { what: "a refused call", method: "GET", path: "/api/v1/me", status: 401 },
    {
      what: "a call that may not be made",
      method: "GET",
      path: "/api/v1/admin/nodes",
      as: "key" as const,
      status: 403,
    },
    { what: "nothing", method: "GET", path: "/api/v1/nothing", status: 404 },
    { what: "another method", method: "DELETE", path: "/api/v1/me", status: 405 },
    { what: "a question before a call", method: "OPTIONS", path: "/api/v1/me", status: 405 },
    { what: "an address that cannot be read", method: "GET", path: "/api/v1/%zz", status: 400 },
    {
      what: "an id that is too long",
      method: "GET",
      path: `/api/v1/projects/${"a".repeat(200)}`,
      as: "key" as const,
      status: 404,
    },
    {
      what: "a body that is no JSON",
      method: "POST",
      path: "/api/v1/projects",
      as: "key" as const,
      body: "{",
      status: 422,
    },
    {
      what: "a body that is too large",
      method: "POST",
      path: "/api/v1/projects",
      as: "key" as const,
      body: `"${"a".repeat(1_100_000)}"`,
      status: 413,
    },
    {
      what: "an upload",
      method: "POST",
      path: `/api/v1/projects/${missing}/deployments`,
      as: "key" as const,
      body: new FormData(),
      status: 404,
    },
    {
      what: "a refused upload",
      method: "POST",
      path: `/api/v1/projects/${missing}/deployments`,
      body: new FormData(),
      status: 401,
    },
    { what: "the description", method: "GET", path: "/api/v1/openapi.json", status: 200 },
    { what: "the identity service", method: "GET", path: "/api/auth/get-session", status: 200 },
    { what: "what the identity service does not have", method: "GET", path: "/api/auth/admin/list-users", status: 404 },
    { what: "a page", method: "GET", path: "/sign-in", headers: html, status: 200 },
    { what: "a page that is not there", method: "GET", path: "/nothing", headers: html, status: 404 },
    { what: "a style sheet", method: "GET", path: "/assets/mark.svg", status: 200 },
  ])("to $what can neither run nor be framed, and lets no other origin in", async (call) => {
    const { method, path, as, body, headers = {}, status } = call;
    const answer = await api.request(method, path, {
      ...(as === "key" && { key }),
      ...(body !== undefined && { body }),
      headers: { origin: evil, ...(typeof body === "string" && json), ...headers },
    });
    expect(answer.status).toBe(status);
    const names = [...answer.headers.keys()];
    expect(names.filter((name) => name.startsWith("access-control-"))).toEqual([]);
    expect(answer.headers.get("x-content-type-options")).toBe("nosniff");
    expect(answer.headers.get("x-frame-options")).toBe("DENY");
    expect(answer.headers.get("cross-origin-resource-policy")).toBe("same-origin");
    expect(answer.headers.get("content-security-policy")).toMatch(/default-src 'none'.*frame-ancestors 'none'/);
    expect(answer.headers.get("referrer-policy")).toMatch(/^(no-referrer|same-origin)$/);
    expect(names).not.toContain("x-powered-by");
    expect(names).not.toContain("server");
    if (status >= 400 && headers !== html)
      expect(answer.body).toEqual({
        ok: false,
        error: { code: expect.any(String), message: expect.stringMatching(/\.$/) },
      });
  });

  test("says over TLS that there is nothing without it", async () => {
    const { securityHeaders } = await import("./headers.ts");
    expect(securityHeaders({ secure: true })["strict-transport-security"]).toMatch(/^max-age=\d{8}/);
    expect(securityHeaders({ secure: false })).not.toHaveProperty("strict-transport-security");
  });
});

describe("a browser that asks whether another origin may call", () => {
  test.each(["/projects", "/me", `/projects/${missing}/deployments`, "/tokens"])("is told no for %s", async (path) => {
    const headers = {
      origin: evil,
      "access-control-request-method": "POST",
      "access-control-request-headers": "x-api-key",
    };
    const answer = await api.call("OPTIONS", path, { headers });
    expect(codeOf(answer)).toEqual([405, "METHOD_NOT_ALLOWED"]);
    expect(answer.headers.get("allow")).not.toContain("OPTIONS");
    expect([...answer.headers.keys()].filter((name) => name.startsWith("access-control-"))).toEqual([]);
  });

  test("is told that there is nothing where nothing is", async () => {
    expect(codeOf(await api.call("OPTIONS", "/nothing"))).toEqual([404, "NOT_FOUND"]);
  });
});

describe("methods", () => {
  test.each([
    { method: "DELETE", path: "/api/v1/projects", allow: "GET, HEAD, POST" },
    { method: "POST", path: `/api/v1/projects/${missing}`, allow: "DELETE, GET, HEAD, PATCH, PUT" },
    { method: "GET", path: `/api/v1/projects/${missing}/stop`, allow: "POST" },
    { method: "HEAD", path: `/api/v1/projects/${missing}/stop`, allow: "POST" },
    { method: "PUT", path: "/healthz", allow: "GET, HEAD" },
    { method: "DELETE", path: "/sign-in", allow: "GET, HEAD, POST" },
    { method: "PATCH", path: "/api/v1/openapi.json", allow: "GET, HEAD" },
  ])("$method of $path is not there; what is there is said", async ({ method, path, allow }) => {
    const answer = await api.request(method, path);
    expect(answer.status).toBe(405);
    expect(answer.headers.get("allow")).toBe(allow);
    if (method !== "HEAD") expect(answer.body.error.code).toBe("METHOD_NOT_ALLOWED");
  });

  test("HEAD is GET without a body, for whom GET is", async () => {
    const full = await api.call("GET", "/me", { key });
    const head = await api.call("HEAD", "/me", { key });
    expect([head.status, head.text]).toEqual([200, ""]);
    expect(head.headers.get("content-length")).toBe(full.headers.get("content-length"));
    expect(head.headers.get("content-type")).toBe(full.headers.get("content-type"));
    expect((await api.call("HEAD", "/me")).status).toBe(401);
    expect((await api.call("HEAD", "/admin/nodes", { key })).status).toBe(403);
    expect((await api.call("HEAD", "/nothing")).status).toBe(404);
    const { key: scoped } = await api.newKey(user, { scopes: ["deploy"] });
    expect((await api.call("HEAD", "/projects", { key: scoped })).status).toBe(403);
  });
});

describe("paths", () => {
  test.each([
    "/api/v1/%2e%2e/v1/me",
    "/api/v1/../v1/me",
    "/api/v1/./me",
    "/api/v1//me",
    "//api/v1/me",
    "/api/v1%2fme",
    "/api/v1/me%00",
    "/api/v1/me%20",
    "/api/v1/me;x=1",
    "/api/v1/me/",
    "/API/v1/me",
    "/api/v1\\me",
    "/api/v1/projects/%2e%2e",
    `/api/v1/projects/${missing}%2fenv`,
    `/api/v1/projects/%2e%2e%2f${missing}`,
    "/api/v1/projects/%c0%ae%c0%ae",
    "/%2fevil.test/api/v1/me",
  ])("%s leads nowhere", async (path) => {
    const { status, body } = await get(path, [`x-api-key: ${key}`]);
    expect([400, 404], body).toContain(status);
    expect(JSON.parse(body).ok).toBe(false);
  });

  test("a letter that is written otherwise is the same letter, and asks for the same credential", async () => {
    expect((await get("/api/v1/%6de")).status).toBe(401);
    expect((await get("/api/v1/%6de", [`x-api-key: ${key}`])).status).toBe(200);
    const { key: scoped } = await api.newKey(user, { scopes: ["deploy"] });
    expect((await get("/api/v1/%70rojects", [`x-api-key: ${scoped}`])).status).toBe(403);
  });

  test("a credential in the address is none", async () => {
    for (const query of [`token=${user.session}`, `x-api-key=${key}`, `key=${key}`, `access_token=${user.session}`]) {
      expect((await get(`/api/v1/me?${query}`)).status, query).toBe(401);
    }
  });
});

describe("under another name than its own", () => {
  const other = "Host: evil.test";

  test.each(["/", "/sign-in", "/device", "/assets/mark.svg"])("%s is not there for browsers", async (path) => {
    const { status, body } = await get(path, [other, "Accept: text/html"]);
    expect(status).toBe(421);
    expect(body).toContain(api.url);
    expect(body).not.toContain("evil.test");
  });

  test("a cookie is worth nothing", async () => {
    const under = (host: string) => get("/api/v1/me", [`Host: ${host}`, `Cookie: ${cookie}`]);
    expect((await under(new URL(api.url).host)).status).toBe(200);
    expect((await under("127.0.0.1:1")).status).toBe(200);
    const refused = await under("evil.test");
    expect([refused.status, JSON.parse(refused.body).error.code]).toEqual([401, "UNAUTHORIZED"]);
    expect((await under("localhost")).status).toBe(401);
    expect((await get("/api/auth/get-session", [other, `Cookie: ${cookie}`])).status).toBe(421);
    expect((await get("/", [other, `Cookie: ${cookie}`])).status).toBe(421);
  });

  test("what a proxy is said to have been asked for changes nothing", async () => {
    const { host } = new URL(api.url);
    expect((await get("/", [other, `X-Forwarded-Host: ${host}`, `Forwarded: host=${host}`])).status).toBe(421);
    expect((await get("/api/v1/me", [other, `X-Forwarded-Host: ${host}`, `Cookie: ${cookie}`])).status).toBe(401);
    expect((await get("/sign-in", ["X-Forwarded-Host: evil.test"])).status).toBe(200);
  });

  test("programs call it as ever", async () => {
    expect((await get("/api/v1/me", [other, `x-api-key: ${key}`])).status).toBe(200);
    expect((await get("/api/v1/me", [other, `Authorization: Bearer ${user.session}`])).status).toBe(200);
    expect((await get("/healthz", [other])).status).toBe(200);
    expect((await get("/readyz", [other])).status).toBe(200);
    expect((await get("/api/v1/openapi.json", [other])).status).toBe(200);
    expect((await get("/api/auth/get-session", [other])).status).toBe(200);
  });
});

describe("a page elsewhere, with the visitor's cookie", () => {
  const changing = apiEndpoints.filter(({ method, access }) => method !== "GET" && access !== "none");
  const pathOf = (path: string) => path.replaceAll(/:[a-z]+/gi, missing);

  test.each(changing.map(({ method, path }) => ({ method, path })))(
    "cannot call $method $path",
    async ({ method, path }) => {
      for (const headers of [
        { origin: evil },
        { origin: "null" },
        {},
        { "sec-fetch-site": "cross-site" },
        { "sec-fetch-site": "same-site" },
      ]) {
        const answer = await api.call(method, pathOf(path), { cookie, headers });
        expect(codeOf(answer), JSON.stringify(headers)).toEqual([403, "FORBIDDEN"]);
      }
    },
  );

  test.each([
    { from: "another site", headers: { origin: evil } },
    { from: "another port of ours", headers: { origin: "http://127.0.0.1:1" } },
    { from: "nowhere", headers: { origin: "null" } },
    { from: "an origin that only begins like ours", headers: { origin: "http://127.0.0.1.evil.test" } },
    { from: "a browser that says so", headers: { "sec-fetch-site": "cross-site" } },
  ])("cannot upload from $from", async ({ headers }) => {
    const project = await api.newProject(user);
    const form = new FormData();
    form.set("manifest", JSON.stringify({ version: 2, app: { name: "Shop", type: "ssr" } }));
    form.set("source", new Blob(["x"]), "source.tar.gz");
    const path = `/projects/${project.id}/deployments`;
    expect(codeOf(await api.call("POST", path, { cookie, headers, body: form }))).toEqual([403, "FORBIDDEN"]);
    // The very same from our own page gets as far as the archive, which is none.
    expect(codeOf(await api.call("POST", path, { cookie, headers: { origin: api.url }, body: form }))[0]).not.toBe(403);
  });

  test("can read nothing of an answer, and changes nothing by reading", async () => {
    const { status, headers } = await api.call("GET", "/projects", { cookie, headers: { origin: evil } });
    expect(status).toBe(200);
    expect(headers.get("access-control-allow-origin")).toBeNull();
    expect(headers.get("cross-origin-resource-policy")).toBe("same-origin");
  });
});
