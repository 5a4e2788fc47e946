import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type TestApi, testApi } from "./http/testing.ts";

let api: TestApi;
beforeAll(async () => {
  api = await testApi();
});
afterAll(async () => {
  await api[Symbol.asyncDispose]();
});

/** Sends bytes as they are, and reads until the server ends the connection. */
const sendRaw = (bytes: string): Promise<string> =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(api.url);
    const socket = connect(Number(port), hostname, () => socket.write(bytes));
    let answer = "";
    socket.on("data", (chunk) => {
      answer += chunk;
    });
    socket.on("close", () => resolve(answer));
    socket.on("error", reject);
    socket.setTimeout(10_000, () => socket.destroy(new Error("no answer")));
  });

const envelope = (code: string) => ({ ok: false, error: { code, message: expect.stringMatching(/^[A-Z"].*\.$/s) } });

test("the process and its readiness can be asked for without a credential", async () => {
  expect((await api.request("GET", "/healthz")).body).toEqual({ ok: true });
  expect((await api.request("GET", "/readyz")).body).toEqual({ ok: true });
});

describe("what is no call of the API", () => {
  test.each([
    { what: "an unknown address", method: "GET", path: "/api/v1/nothing" },
    { what: "an address outside of the API", method: "GET", path: "/nothing" },
    { what: "a doubled slash", method: "GET", path: "//api/v1/me" },
    { what: "an upper-case address", method: "GET", path: "/api/v1/ME" },
    { what: "a trailing slash", method: "GET", path: "/api/v1/me/" },
    { what: "a path that climbs", method: "GET", path: "/api/v1/%2e%2e/%2e%2e/etc/passwd" },
  ])("$what is not found", async ({ method, path }) => {
    const answer = await api.request(method, path);
    expect(answer.status).toBe(404);
    expect(answer.body).toEqual(envelope("NOT_FOUND"));
  });

  test("a known address under another method says which it has", async () => {
    const answer = await api.call("DELETE", "/projects");
    expect(answer.status).toBe(405);
    expect(answer.headers.get("allow")).toBe("GET, HEAD, POST");
    expect(answer.body).toEqual(envelope("METHOD_NOT_ALLOWED"));
  });

  test("bytes that are not HTTP are answered in the envelope", async () => {
    const answer = await sendRaw("HELLO\r\n\r\n");
    expect(answer).toContain("400 Bad Request");
    expect(answer).toContain('{"ok":false,"error":{"code":"BAD_REQUEST"');
  });

  test("headers that are too large are answered in the envelope", async () => {
    const answer = await sendRaw(`GET /api/v1/me HTTP/1.1\r\nHost: x\r\nX-Large: ${"a".repeat(20_000)}\r\n\r\n`);
    expect(answer).toContain("431 ");
    expect(answer).toContain('"ok":false');
  });

  test.each([
    { what: "two lengths", lines: ["Content-Length: 2", "Content-Length: 3"] },
    { what: "a length and chunks", lines: ["Content-Length: 2", "Transfer-Encoding: chunked"] },
  ])("a request with $what is refused", async ({ lines }) => {
    const answer = await sendRaw(`POST /api/v1/projects HTTP/1.1\r\nHost: x\r\n${lines.join("\r\n")}\r\n\r\n{}`);
    expect(answer).toContain("400 Bad Request");
  });
});

describe("bodies", () => {
  const post = async (body: unknown, headers: Record<string, string> = {}) => {
    const { session } = await api.newUser();
    return api.call("POST", "/projects", { session, body, headers });
  };
  const json = { "content-type": "application/json" };

  test.each([
    { what: "no JSON", body: "{", code: "VALIDATION" },
    { what: "null", body: "null", code: "VALIDATION" },
    { what: "a list", body: "[]", code: "VALIDATION" },
    { what: "a text", body: '""', code: "VALIDATION" },
    { what: "nothing", body: "", code: "VALIDATION" },
    { what: "an unknown key", body: '{"name":"Shop","type":"ssr","owner":"x"}', code: "VALIDATION" },
    { what: "a number where a text belongs", body: '{"name":7,"type":"ssr"}', code: "VALIDATION" },
    { what: "a prototype", body: '{"name":"Shop","type":"ssr","__proto__":{"a":1}}', code: "VALIDATION" },
    { what: "a NUL", body: '{"name":"a\\u0000","type":"ssr"}', code: "VALIDATION" },
    { what: "half a character", body: '{"name":"\\ud800","type":"ssr"}', code: "VALIDATION" },
    { what: "nesting without end", body: `{"name":${"[".repeat(50_000)}${"]".repeat(50_000)}}`, code: "VALIDATION" },
  ])("$what is refused with $code", async ({ body, code }) => {
    const answer = await post(body, json);
    expect(answer.status).toBe(422);
    expect(answer.body).toEqual({ ok: false, error: { code, message: expect.any(String) } });
  });

  test.each([
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "application/json\ta",
  ])("a body of type %s is refused", async (type) => {
    const answer = await post('{"name":"Shop","type":"ssr"}', { "content-type": type });
    expect(answer.status).toBe(422);
    expect(answer.body).toEqual(envelope("VALIDATION"));
  });

  test("a body of more than 1 MiB is refused", async () => {
    const answer = await post(JSON.stringify({ name: "a".repeat(1_100_000), type: "ssr" }), json);
    expect(answer.status).toBe(413);
    expect(answer.body).toEqual(envelope("BODY_TOO_LARGE"));
  });

  test("who may not send a body is told so before it is read", async () => {
    const answer = await api.call("POST", "/projects", { body: "{", headers: json });
    expect(answer.status).toBe(401);
  });

  test("a call without a body takes an empty JSON body, an empty object, and nothing else", async () => {
    const user = await api.newUser();
    const stop = async (body: string) => {
      const project = await api.newProject(user);
      return (await api.call("POST", `/projects/${project.id}/stop`, { session: user.session, body, headers: json }))
        .body.error.code;
    };
    expect(await stop("")).toBe("STOP_UNAVAILABLE");
    expect(await stop("{}")).toBe("STOP_UNAVAILABLE");
    expect(await stop('{"force":true}')).toBe("VALIDATION");
  });

  test.each(["application/x-www-form-urlencoded", "text/plain"])(
    "an empty body of type %s, which some clients send with every call, is none",
    async (type) => {
      const user = await api.newUser();
      const project = await api.newProject(user);
      const send = (method: string, path: string) =>
        api.call(method, path, { session: user.session, body: "", headers: { "content-type": type } });
      expect((await send("POST", `/projects/${project.id}/stop`)).body).toEqual(envelope("STOP_UNAVAILABLE"));
      const created = await send("POST", "/projects");
      expect([created.status, created.body.error]).toEqual([
        422,
        { code: "VALIDATION", message: "The body is missing." },
      ]);
      expect((await send("DELETE", `/projects/${project.id}`)).body).toEqual({ ok: true, id: project.id });
    },
  );

  test.each([
    { method: "POST", path: "/account/set-password", is: [400, "BAD_REQUEST"] },
    { method: "POST", path: "/waitlist", is: [400, "INVALID_BODY"] },
    { method: "POST", path: `/admin/users/${crypto.randomUUID()}/role`, is: [400, "INVALID_BODY"] },
    {
      method: "PATCH",
      path: `/projects/${crypto.randomUUID()}/jobs/${crypto.randomUUID()}`,
      is: [400, "INVALID_INPUT"],
    },
    { method: "POST", path: "/projects", is: [422, "VALIDATION"] },
  ])("a body of another type has the code of any bad body of $path, and is told which it has to be", async (call) => {
    const { session } = await api.newUser({ admin: true });
    const answer = await api.call(call.method, call.path, {
      session,
      body: "email=ada@svc.test",
      headers: { "content-type": "application/x-www-form-urlencoded" },
    });
    expect([answer.status, answer.body.error.code]).toEqual(call.is);
    expect(answer.body.error.message).toContain("application/json");
  });
});

describe("a parameter in the address that a call does not have", () => {
  test.each([
    { method: "GET", path: "/me?foo=1" },
    { method: "GET", path: "/projects?limit=1" },
    { method: "GET", path: "/account?__proto__=1" },
    { method: "POST", path: "/waitlist?email=ada@svc.test", body: { email: "ada@svc.test" } },
    { method: "POST", path: "/tokens?name=x", body: { name: "x" } },
    { method: "DELETE", path: "/tokens/self?force" },
    { method: "GET", path: "/admin/stats?days=1" },
    { method: "GET", path: "/me?foo=%00" },
  ])("is refused by $method $path", async ({ method, path, body }) => {
    const { session } = await api.newUser({ admin: true });
    const answer = await api.call(method, path, { session, ...(body && { body }) });
    expect([answer.status, answer.body.error.code]).toEqual([422, "VALIDATION"]);
  });

  test("is refused before an upload is read", async () => {
    const user = await api.newUser();
    const { id } = await api.newProject(user);
    const form = new FormData();
    form.set("manifest", JSON.stringify({ version: 2, app: { name: "Shop", type: "ssr" } }));
    form.set("source", new Blob([new Uint8Array(2 * 1024 * 1024)]), "source.tar.gz");
    const path = `/projects/${id}/deployments?channel=dev`;
    const answer = await api.call("POST", path, { session: user.session, body: form });
    expect([answer.status, answer.body.error.code]).toEqual([422, "VALIDATION"]);
    expect(answer.body.error.message).toContain("channel");
    expect(await api.db.selectFrom("deployment").select("id").where("project_id", "=", id).execute()).toEqual([]);
  });

  test("is not looked at for somebody who may not make the call", async () => {
    expect((await api.call("GET", "/me?foo=1")).status).toBe(401);
  });
});

test("who misspells a field or a parameter is told the one that is near", async () => {
  const { session } = await api.newUser({ admin: true });
  const field = await api.call("POST", "/projects", { session, body: { name: "Shop", type: "ssr", slgu: "shop" } });
  expect(field.body.error.message).toContain("did you mean slug?");
  const parameter = await api.call("GET", "/admin/audit?limt=5", { session });
  expect(parameter.body.error.message).toContain("did you mean limit?");
});

test("an id that is none is an id of nothing", async () => {
  const { session } = await api.newUser();
  for (const id of ["x", "1", "%00", "00000000-0000-0000-0000-00000000000g", "a".repeat(99), "a".repeat(4_000)]) {
    const answer = await api.call("GET", `/projects/${id}`, { session });
    expect(answer.status, id).toBe(404);
    expect(answer.body, id).toEqual(envelope("NOT_FOUND"));
    expect((await api.call("GET", `/projects/${id}`)).status, id).toBe(401);
  }
});

test("nothing may take for ever", () => {
  const { headersTimeout, requestTimeout, timeout, keepAliveTimeout } = api.server.server;
  expect({ headersTimeout, requestTimeout, timeout, keepAliveTimeout }).toEqual({
    headersTimeout: 15_000,
    requestTimeout: 900_000,
    timeout: 120_000,
    keepAliveTimeout: 65_000,
  });
});

describe("headers", () => {
  test("replies can neither run, nor be framed, nor be kept", async () => {
    const { headers } = await api.call("GET", "/me");
    expect(headers.get("content-security-policy")).toBe("default-src 'none'; frame-ancestors 'none'");
    expect(headers.get("x-content-type-options")).toBe("nosniff");
    expect(headers.get("x-frame-options")).toBe("DENY");
    expect(headers.get("cache-control")).toBe("no-store");
    expect(headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
  });

  test("no other origin is let in", async () => {
    const { headers } = await api.call("GET", "/me", { headers: { origin: "https://evil.test" } });
    expect([...headers.keys()].filter((name) => name.startsWith("access-control-"))).toEqual([]);
  });
});

test("the description names every route with its bodies, and is valid OpenAPI 3.1 as far as it refers to itself", async () => {
  const { body, status } = await api.call("GET", "/openapi.json");
  expect(status).toBe(200);
  expect(body.openapi).toBe("3.1.0");
  expect(Object.keys(body.paths)).toContain("/projects/{id}/deployments");
  const create = body.paths["/projects"].post;
  expect(create.requestBody.content["application/json"].schema.required).toEqual(["name", "type"]);
  expect(create.responses["201"].content["application/json"].schema.properties.project.type).toBe("object");
  expect(body.paths["/projects/{id}"].get.parameters).toEqual([
    expect.objectContaining({ name: "id", in: "path", required: true }),
  ]);
  const ids = Object.values<Record<string, { operationId: string }>>(body.paths).flatMap((path) =>
    Object.values(path).map(({ operationId }) => operationId),
  );
  expect(new Set(ids).size).toBe(ids.length);
});
