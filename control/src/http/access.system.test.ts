import { combinableScopes, type Scope, satisfies } from "@svc/proto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Access } from "../auth/access.ts";
import type { Endpoint } from "./endpoint.ts";
import { apiEndpoints } from "./server.ts";
import { type CallOptions, type TestApi, type TestUser, testApi } from "./testing.ts";

let api: TestApi;
let user: TestUser;
let admin: TestUser;
/** Paths of things that are not there: access comes before existence. */
const missing = "11111111-2222-4333-8444-555555555555";

beforeAll(async () => {
  api = await testApi();
  user = await api.newUser();
  admin = await api.newUser({ admin: true });
});
afterAll(async () => {
  await api[Symbol.asyncDispose]();
});

const call = ({ method, path }: Endpoint, options: CallOptions) =>
  api.call(method, path.replaceAll(/:[a-z]+/gi, missing), options);

/** What the call is told before anything is looked up; null when it got past that. */
async function denial(spec: Endpoint, options: CallOptions): Promise<string | null> {
  const { status, body } = await call(spec, options);
  return status === 401 || status === 403 ? body.error.code : null;
}

const unless = (may: boolean, code: string) => (may ? null : code);

/** What the contract's Access column means for a key with `scopes` of somebody who is no administrator. */
function expectedFor(access: Access, scopes: Scope[] | null): string | null {
  if (access === "none" || access === "any") return null;
  if (access === "session") return "SESSION_REQUIRED";
  if (access === "admin") return "FORBIDDEN";
  if (access === "full") return unless(scopes === null, "FORBIDDEN_SCOPE");
  return unless(satisfies(scopes, access.scope), "FORBIDDEN_SCOPE");
}

describe.each(apiEndpoints.map((spec) => ({ route: `${spec.method} ${spec.path}`, spec })))("$route", ({ spec }) => {
  const { access } = spec;

  test("is closed to nobody in particular, to wrong keys and to banned users", async () => {
    const banned = await api.newUser();
    const { key } = await api.newKey(banned);
    await api.db.updateTable("auth.user").set({ banned: true }).where("id", "=", banned.id).execute();
    for (const options of [{}, { key: "svc_wrong" }, { session: "wrong" }, { key }, { session: banned.session }]) {
      expect(await denial(spec, options)).toBe(unless(access === "none", "UNAUTHORIZED"));
    }
  });

  test("is open to a session, unless it is for administrators", async () => {
    expect(await denial(spec, { session: user.session })).toBe(unless(access !== "admin", "FORBIDDEN"));
    expect(await denial(spec, { session: admin.session })).toBeNull();
  });

  test("treats a full-access key, and each scope alone, as its class says", async () => {
    for (const scopes of [null, ...combinableScopes.map((scope) => [scope])]) {
      const { key } = await api.newKey(user, scopes === null ? {} : { scopes });
      expect(await denial(spec, { key }), String(scopes)).toBe(expectedFor(access, scopes));
    }
  });

  test("admits a CI key only where it deploys and follows", async () => {
    const project = await api.newProject(user);
    const { key } = await api.newKey(user, { scopes: ["ci:deploy"], projectIds: [project.id] });
    const open = access === "none" || (typeof access === "object" && access.orCiKey === true);
    const code = access === "session" ? "SESSION_REQUIRED" : access === "admin" ? "FORBIDDEN" : "FORBIDDEN_SCOPE";
    expect(await denial(spec, { key })).toBe(unless(open, code));
  });

  test("never admits an administrator's scoped key where administrators are asked for", async () => {
    const { key } = await api.newKey(admin, { scopes: [...combinableScopes] });
    if (access === "admin") expect(await denial(spec, { key })).toBe("FORBIDDEN_SCOPE");
  });

  test("answers in one shape, and nothing that was not foreseen", async () => {
    for (const options of [{}, { session: user.session }, { session: admin.session }]) {
      const { status, body } = await call(spec, options);
      expect(status).toBeLessThan(500);
      expect(body.ok).toBe(status < 400);
    }
  });
});

test("the routes that a CI key may use are these", () => {
  const open = apiEndpoints
    .filter(({ access }) => typeof access === "object" && access.orCiKey)
    .map(({ method, path }) => `${method} ${path}`);
  expect(open).toEqual(["POST /projects/:id/deployments", "GET /deployments/:id", "GET /deployments/:id/logs"]);
});
