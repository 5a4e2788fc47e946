import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Answer, type CallOptions, cookieOf, type TestApi, type TestUser, testApi } from "../../http/testing.ts";

let api: TestApi;
let user: TestUser;
beforeAll(async () => {
  api = await testApi();
  user = await api.newUser();
});
afterAll(() => api?.[Symbol.asyncDispose]());

const codeOf = ({ status, body }: Answer) => (status < 400 ? status : [status, body.error.code]);
const call = async (method: string, path: string, options: CallOptions) =>
  codeOf(await api.call(method, path, options));
const forbidden = [403, "FORBIDDEN_SCOPE"];
const unauthorized = [401, "UNAUTHORIZED"];
const notFound = [404, "NOT_FOUND"];

describe("what is stored of a key", () => {
  /** A key whose row then reads as it is given, whatever we would have written. */
  async function storedKey(values: { scopes?: string | null; projectIds?: string | null }): Promise<string> {
    const { id, key } = await api.newKey(user);
    const { scopes = null, projectIds = null } = values;
    await sql`update api_token set scopes = ${scopes}::jsonb, project_ids = ${projectIds}::uuid[]
      where id = ${id}`.execute(api.db);
    return key;
  }

  test("without scopes it opens everything of its user", async () => {
    const key = await storedKey({});
    expect(await call("GET", "/account", { key })).toBe(200);
    expect(await call("GET", "/projects", { key })).toBe(200);
  });

  test.each([
    "null",
    "true",
    "0",
    "7",
    '""',
    '"*"',
    '"projects:read"',
    "{}",
    '{"0": "projects:read", "length": 1}',
    '{"projects:read": true}',
    "[]",
    "[null]",
    "[true]",
    "[[]]",
    '[["projects:read"]]',
    '[{"scope": "projects:read"}]',
    '["*"]',
    '["projects:*"]',
    '["projects:read", "*"]',
    '["projects:read", 7]',
    '["projects:read", null]',
    '["projects:read", "projects:raed"]',
    '["Projects:Read"]',
    '["projects:read "]',
    '["projects:read,env:read"]',
    '["toString"]',
    '["__proto__"]',
    '["ci:deploy"]',
    '["ci:deploy", "projects:read"]',
    '["projects:read", "ci:deploy"]',
  ])("scopes that read %s open nothing", async (scopes) => {
    const key = await storedKey({ scopes });
    const project = await api.newProject(user);
    expect(await call("GET", "/projects", { key })).toEqual(forbidden);
    expect(await call("GET", `/projects/${project.id}`, { key })).toEqual(forbidden);
    expect(await call("GET", `/projects/${project.id}/env`, { key })).toEqual(forbidden);
    expect(await call("POST", `/projects/${project.id}/deployments`, { key, body: {} })).toEqual(forbidden);
    expect(await call("GET", "/account", { key })).toEqual(forbidden);
    expect(await call("GET", "/tokens", { key })).toEqual(forbidden);
    expect(await call("POST", "/tokens", { key, body: { name: "x" } })).toEqual([403, "SESSION_REQUIRED"]);
    expect((await api.call("GET", "/me", { key })).body).toMatchObject({ scopes: [], projectIds: null });
    const listed = (await api.call("GET", "/tokens", { session: user.session })).body.tokens;
    expect(listed.find(({ start }: { start: string }) => key.startsWith(start))).toMatchObject({ scopes: [] });
  });

  test.each([
    { what: "no project", projectIds: () => "{}" },
    { what: "two projects", projectIds: (own: string) => `{${own},${randomUUID()}}` },
    { what: "nothing in place of its project", projectIds: () => "{NULL}" },
    { what: "its project twice", projectIds: (own: string) => `{${own},${own}}` },
  ])("ci:deploy with $what opens nothing", async ({ projectIds }) => {
    const project = await api.newProject(user);
    const key = await storedKey({ scopes: '["ci:deploy"]', projectIds: projectIds(project.id) });
    expect(await call("POST", `/projects/${project.id}/deployments`, { key, body: {} })).toEqual(forbidden);
    expect(await call("GET", `/deployments/${randomUUID()}`, { key })).toEqual(forbidden);
  });

  test.each(["{}", "{NULL}", "{NULL,NULL}", "{{NULL}}"])("projects that read %s are none", async (projectIds) => {
    const project = await api.newProject(user);
    const key = await storedKey({ projectIds });
    expect((await api.call("GET", "/projects", { key })).body.projects).toEqual([]);
    expect(await call("GET", `/projects/${project.id}`, { key })).toEqual(notFound);
    expect(await call("POST", "/projects", { key, body: { name: "x", type: "ssr" } })).toEqual(forbidden);
    expect((await api.call("GET", "/me", { key })).body).toMatchObject({ scopes: null, projectIds: [] });
    expect((await api.call("GET", "/tokens", { session: user.session })).status).toBe(200);
  });
});

describe("a key that is limited to projects", () => {
  test("sees these, in order, and of all others what anybody sees of nothing", async () => {
    const [a, b, other] = await Promise.all([api.newProject(user), api.newProject(user), api.newProject(user)]);
    const foreign = await api.newProject(await api.newUser());
    const { key } = await api.newKey(user, { projectIds: [a.id, b.id] });
    const { body } = await api.call("GET", "/projects", { key });
    expect(body.projects.map(({ id }: { id: string }) => id).sort()).toEqual([a.id, b.id].sort());
    expect((await api.call("GET", "/me", { key })).body.projectIds).toEqual([a.id, b.id].sort());
    expect(await call("GET", `/projects/${a.id}`, { key })).toBe(200);
    const nothing = await api.call("GET", `/projects/${randomUUID()}`, { key });
    for (const { id } of [other, foreign]) {
      const answer = await api.call("GET", `/projects/${id}`, { key });
      expect([answer.status, answer.text]).toEqual([nothing.status, nothing.text]);
    }
    const deployment = await api.newDeployment(other);
    expect(await call("GET", `/deployments/${deployment.id}`, { key })).toEqual(notFound);
  });

  test("creates none, and neither administers nor handles other keys", async () => {
    const admin = await api.newUser({ admin: true });
    const project = await api.newProject(admin);
    const { key } = await api.newKey(admin, { projectIds: [project.id] });
    expect(await call("POST", "/projects", { key, body: { name: "x", type: "ssr" } })).toEqual(forbidden);
    expect(await call("GET", "/admin/nodes", { key })).toEqual(forbidden);
    expect(await call("GET", "/tokens", { key })).toEqual(forbidden);
  });
});

describe("a ci:deploy key", () => {
  test("follows what it created, and not what anybody else did, another such key included", async () => {
    const project = await api.newProject(user);
    const grant = { scopes: ["ci:deploy" as const], projectIds: [project.id] };
    const [first, second] = [await api.newKey(user, grant), await api.newKey(user, grant)];
    const own = await api.newDeployment(project, { created_by_token: first.id });
    const ofSession = await api.newDeployment(project);
    for (const path of [`/deployments/${own.id}`, `/deployments/${own.id}/logs`]) {
      expect(await call("GET", path, { key: first.key }), path).toBe(200);
      expect(await call("GET", path, { key: second.key }), path).toEqual(notFound);
      expect(await call("GET", path.replace(own.id, ofSession.id), { key: first.key }), path).toEqual(notFound);
    }
    // The project being handed to somebody else takes the key's reach along.
    await api.db
      .updateTable("project")
      .set({ owner_id: (await api.newUser()).id })
      .where("id", "=", project.id)
      .execute();
    expect(await call("GET", `/deployments/${own.id}`, { key: first.key })).toEqual(notFound);
  });

  test("does nothing else", async () => {
    const [project, other] = [await api.newProject(user), await api.newProject(user)];
    const { id, key } = await api.newKey(user, { scopes: ["ci:deploy"], projectIds: [project.id] });
    const own = await api.newDeployment(project, { created_by_token: id });
    for (const [method, path] of [
      ["GET", "/me"],
      ["GET", "/projects"],
      ["GET", `/projects/${project.id}`],
      ["GET", `/projects/${project.id}/deployments`],
      ["GET", `/projects/${project.id}/env`],
      ["GET", `/deployments/${own.id}/timeline`],
      ["POST", `/deployments/${own.id}/rollback`],
      ["POST", `/deployments/${own.id}/promote`],
      ["POST", `/deployments/${own.id}/cancel`],
      ["POST", `/projects/${project.id}/stop`],
      ["GET", "/tokens"],
      ["DELETE", "/tokens/self"],
    ] as const) {
      expect(await call(method, path, { key }), `${method} ${path}`).toEqual(forbidden);
    }
    expect(await call("POST", `/projects/${other.id}/deployments`, { key, body: { manifest: {} } })).toEqual(notFound);
  });
});

describe("time", () => {
  const inASecond = () => new Date(Date.now() + 1_000);

  test("ends a key and a session by itself", async () => {
    const owner = await api.newUser();
    const { id, key } = await api.newKey(owner);
    await api.db.updateTable("api_token").set({ expires_at: inASecond() }).where("id", "=", id).execute();
    await api.db.updateTable("auth.session").set({ expiresAt: inASecond() }).where("userId", "=", owner.id).execute();
    const cookie = cookieOf(api.context.config, owner.session);
    for (const options of [{ key }, { session: owner.session }, { cookie }]) {
      await expect.poll(() => call("GET", "/me", options)).toEqual(unauthorized);
    }
  });

  test("ends a ban by itself", async () => {
    const owner = await api.newUser();
    const { key } = await api.newKey(owner);
    const banUntil = (banExpires: Date) =>
      api.db.updateTable("auth.user").set({ banned: true, banExpires }).where("id", "=", owner.id).execute();
    // A second may be over before both have asked.
    await banUntil(new Date(Date.now() + 3_600_000));
    expect(await call("GET", "/me", { key })).toEqual(unauthorized);
    expect(await call("GET", "/me", { session: owner.session })).toEqual(unauthorized);
    await banUntil(inASecond());
    await expect.poll(() => call("GET", "/me", { key })).toBe(200);
    expect(await call("GET", "/me", { session: owner.session })).toBe(200);
  });

  test("does not end a ban without an end", async () => {
    const owner = await api.newUser();
    const { key } = await api.newKey(owner);
    await api.db.updateTable("auth.user").set({ banned: true, banExpires: null }).where("id", "=", owner.id).execute();
    expect(await call("GET", "/me", { key })).toEqual(unauthorized);
  });
});

describe("administration", () => {
  test("takes the role and full access, the role first", async () => {
    const admin = await api.newUser({ admin: true });
    const ask = async (owner: TestUser, scopes?: ["projects:read"]) =>
      call("GET", "/admin/nodes", { key: (await api.newKey(owner, scopes && { scopes })).key });
    expect(await ask(admin)).toBe(200);
    expect(await ask(admin, ["projects:read"])).toEqual(forbidden);
    expect(await ask(user)).toEqual([403, "FORBIDDEN"]);
    expect(await ask(user, ["projects:read"])).toEqual([403, "FORBIDDEN"]);
    expect(await call("GET", "/admin/nodes", { session: admin.session })).toBe(200);
  });

  test.each([
    { role: "user,admin", status: 200 },
    { role: "admin", status: 200 },
    { role: "administrator", status: 403 },
    { role: "not-admin", status: 403 },
    { role: "", status: 403 },
    { role: null, status: 403 },
  ])("is for the role $role: $status", async ({ role, status }) => {
    const owner = await api.newUser();
    await api.db.updateTable("auth.user").set({ role }).where("id", "=", owner.id).execute();
    expect((await api.call("GET", "/admin/nodes", { session: owner.session })).status).toBe(status);
  });
});

describe("several credentials in one request", () => {
  test.each([
    { what: "a key and a session", options: (key: string) => ({ key, session: user.session }) },
    { what: "two keys", options: (key: string) => ({ headers: { "x-api-key": `${key}, ${key}` } }) },
    {
      what: "a wrong key and a good cookie",
      options: () => ({ key: "svc_wrong", cookie: cookieOf(api.context.config, user.session) }),
    },
    {
      what: "an empty key and a good cookie",
      options: () => ({ key: "", cookie: cookieOf(api.context.config, user.session) }),
    },
    {
      what: "a wrong session and a good cookie",
      options: () => ({ session: "wrong", cookie: cookieOf(api.context.config, user.session) }),
    },
    { what: "a key in the place of a session", options: (key: string) => ({ session: key }) },
    { what: "a session in the place of a key", options: () => ({ key: user.session }) },
  ])("$what are none", async ({ options }) => {
    const { key } = await api.newKey(user);
    expect(await call("GET", "/me", options(key))).toEqual(unauthorized);
  });
});

describe("wrong credentials from one client", () => {
  const limit = 3;
  let now = Date.parse("2026-01-01T00:00:10Z");
  let own: TestApi;
  beforeAll(async () => {
    own = await testApi({ wrongPerMinuteMax: limit, now: () => new Date(now) });
  });
  afterAll(() => own?.[Symbol.asyncDispose]());
  let clients = 0;
  /** Asks as another client than all before. */
  const newClient = () => {
    clients += 1;
    const headers = { "x-forwarded-for": `192.0.2.${clients}` };
    return (options: CallOptions) => own.call("GET", "/me", { ...options, headers });
  };
  const wrongKey = { key: `svc_${"A".repeat(48)}` };

  test.each([
    { what: "keys of the right form", wrong: wrongKey },
    { what: "keys of another form", wrong: { key: "svc_wrong" } },
    { what: "sessions", wrong: { session: "wrong" } },
    { what: "forged cookies", wrong: { cookie: "svc.session_token=token.c2lnbmF0dXJl" } },
    { what: "damaged headers", wrong: { session: "a b" } },
  ])("as $what are counted, and told to wait beyond a bound", async ({ wrong }) => {
    const ask = newClient();
    for (let count = 0; count < limit; count += 1) expect(codeOf(await ask(wrong))).toEqual(unauthorized);
    const refused = await ask(wrong);
    expect(codeOf(refused)).toEqual([429, "RATE_LIMITED"]);
    expect(refused.headers.get("retry-after")).toBe("60");
    now += 60_000;
    expect(codeOf(await ask(wrong))).toEqual(unauthorized);
  });

  test("lock nobody out: a valid credential from the same address passes, before and after", async () => {
    const owner = await own.newUser();
    const { key } = await own.newKey(owner);
    const ask = newClient();
    for (let count = 0; count < 3 * limit; count += 1) {
      await ask(wrongKey);
      expect(codeOf(await ask({ key }))).toBe(200);
      expect(codeOf(await ask({ session: owner.session }))).toBe(200);
    }
    expect(codeOf(await ask(wrongKey))).toEqual([429, "RATE_LIMITED"]);
  });

  test("of another client are another matter", async () => {
    const [one, other] = [newClient(), newClient()];
    for (let count = 0; count <= limit; count += 1) await one(wrongKey);
    expect(codeOf(await one(wrongKey))).toEqual([429, "RATE_LIMITED"]);
    expect(codeOf(await other(wrongKey))).toEqual(unauthorized);
  });

  test("are neither requests without one nor sessions of ours that have ended", async () => {
    const owner = await own.newUser();
    const cookie = cookieOf(own.context.config, owner.session);
    await sql`delete from auth."session" where "userId" = ${owner.id}`.execute(own.db);
    const ask = newClient();
    for (let count = 0; count < 3 * limit; count += 1) {
      expect(codeOf(await ask({}))).toEqual(unauthorized);
      expect(codeOf(await ask({ cookie }))).toEqual(unauthorized);
    }
  });
});
