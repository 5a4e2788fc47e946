import { randomBytes, randomUUID } from "node:crypto";
import { sql } from "kysely";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type Answer, type CallOptions, type TestApi, type TestUser, testApi } from "../../../http/testing.ts";

let api: TestApi;
let admin: TestUser;
beforeAll(async () => {
  api = await testApi();
  admin = await api.newUser({ admin: true });
});
afterAll(async () => {
  await api?.[Symbol.asyncDispose]();
});
afterEach(() => api.db.deleteFrom("work_item").execute());

const codeOf = (answer: Answer) => [answer.status, answer.body.error?.code];
const as = (user: TestUser): CallOptions => ({ session: user.session });
const act = (id: string, action: string, body?: unknown, by: TestUser = admin) =>
  api.call("POST", `/admin/users/${id}/${action}`, { ...as(by), ...(body !== undefined && { body }) });
const isIn = async (user: TestUser) => (await api.call("GET", "/me", as(user))).status === 200;
const stored = (id: string) =>
  api.db
    .selectFrom("auth.user")
    .select(["role", "banned", "banReason", "banExpires"])
    .where("id", "=", id)
    .executeTakeFirstOrThrow();

interface Listed {
  id: string;
  email: string;
  [field: string]: unknown;
}
async function listed(query = ""): Promise<{ users: Listed[]; nextCursor: string | null }> {
  const answer = await api.call("GET", `/admin/users${query}`, as(admin));
  expect(answer.status).toBe(200);
  return answer.body;
}
const listedUser = async (user: TestUser) => (await listed()).users.find(({ id }) => id === user.id);

describe("GET /admin/users", () => {
  test("tells of somebody who has nothing", async () => {
    const user = await api.newUser({ verified: false });
    expect(await listedUser(user)).toEqual({
      ...{ id: user.id, email: user.email, name: "Ada", role: "user", plan: "standard", emailVerified: false },
      ...{ banned: false, banReason: null, banExpiresAt: null },
      ...{ projects: 0, suspendedProjects: 0, requests30d: 0, diskBytes: 0 },
      createdAt: expect.any(String),
    });
  });

  test("tells of a project without visitors as such", async () => {
    const owner = await api.newUser();
    await api.newProject(owner);
    expect(await listedUser(owner)).toMatchObject({ projects: 1, requests30d: 0, diskBytes: 0 });
  });

  test("counts projects, what their visitors asked for, and what they keep, each once", async () => {
    const user = await api.newUser({ plan: { slug: "special" } });
    const shop = await api.newProject(user);
    const blog = await api.newProject(user, { type: "static" });
    const gone = await api.newProject(user);
    await api.db.updateTable("project").set({ deleting_at: new Date() }).where("id", "=", gone.id).execute();
    await api.db
      .updateTable("project")
      .set({ suspended_at: new Date(), suspend_reason: "quota" })
      .where("id", "=", blog.id)
      .execute();
    const hours = (projectId: string, channel: string, hoursAgo: number, requests: number) =>
      sql`insert into traffic_hour (project_id, channel, hour, requests)
        values (${projectId}, ${channel}, date_trunc('hour', now()) - ${hoursAgo} * interval '1 hour', ${requests})`.execute(
        api.db,
      );
    await hours(shop.id, "production", 1, 5);
    await hours(shop.id, "preview", 700, 7);
    await hours(blog.id, "production", 2, 11);
    await hours(shop.id, "production", 30 * 24 + 2, 1_000);
    await hours(gone.id, "production", 1, 1_000);
    const content = (projectId: string, kind: "image" | "source", digest: string | null, size_bytes: number) =>
      api.db
        .insertInto("artifact")
        .values({ id: randomUUID(), project_id: projectId, repository: `svc/${projectId}/x`, kind, digest, size_bytes })
        .execute();
    await content(shop.id, "image", "sha256:a", 100);
    await content(shop.id, "image", "sha256:a", 100);
    await content(shop.id, "source", "sha256:b", 10);
    await content(blog.id, "image", "sha256:a", 1_000);
    await content(blog.id, "image", null, 5_000);
    await content(gone.id, "image", "sha256:c", 7_000);
    expect(await listedUser(user)).toMatchObject({
      plan: "special",
      projects: 2,
      suspendedProjects: 1,
      requests30d: 23,
      diskBytes: 1_110,
    });
  });

  test("a ban that has run out is none", async () => {
    const user = await api.newUser();
    await act(user.id, "ban", { reason: "spam", expiresInSeconds: 3_600 });
    const during = await listedUser(user);
    expect(during).toMatchObject({ banned: true, banReason: "spam" });
    expect(Date.parse(String(during?.["banExpiresAt"])) - Date.now()).toBeGreaterThan(3_500_000);
    await api.db
      .updateTable("auth.user")
      .set({ banExpires: new Date(Date.now() - 1_000) })
      .where("id", "=", user.id)
      .execute();
    expect(await listedUser(user)).toMatchObject({ banned: false, banReason: null, banExpiresAt: null });
  });

  test("comes in pages that leave nobody out and show nobody twice, newest first", async () => {
    const word = randomBytes(4).toString("hex");
    // Of one instant, and within one millisecond.
    await sql`insert into auth."user" (id, name, email, "emailVerified", "createdAt")
      select gen_random_uuid(), 'Paged', ${word} || n || '@svc.test', true,
        timestamptz '2030-01-01' + (n / 3) * interval '1 microsecond'
      from generate_series(1, 10) as n`.execute(api.db);
    const seen: string[] = [];
    let cursor: string | null = "";
    for (let pages = 1; cursor !== null; pages += 1) {
      const query: string = `?q=${word.toUpperCase()}&limit=3${cursor === "" ? "" : `&cursor=${cursor}`}`;
      const page = await listed(query);
      seen.push(...page.users.map(({ email }) => email));
      cursor = page.nextCursor;
      expect(pages).toBeLessThanOrEqual(4);
    }
    expect(seen).toHaveLength(10);
    expect(new Set(seen).size).toBe(10);
    const { users, nextCursor } = await listed();
    expect(nextCursor).toBeNull();
    expect(users.filter(({ email }) => email.startsWith(word)).map(({ email }) => email)).toEqual(seen);
    const { rows } = await sql<{ email: string }>`
      select email from auth."user" order by "createdAt" desc, id desc`.execute(api.db);
    expect(users.map(({ email }) => email)).toEqual(rows.map(({ email }) => email));
  });

  test("looks for a part of a name or an address, whatever it means elsewhere", async () => {
    const user = await api.newUser();
    await api.db.updateTable("auth.user").set({ name: "100%_\\ ' Ünder" }).where("id", "=", user.id).execute();
    const found = async (q: string) => (await listed(`?q=${encodeURIComponent(q)}`)).users.map(({ id }) => id);
    expect(await found("%_\\ '")).toEqual([user.id]);
    expect(await found(user.email.slice(0, 8).toUpperCase())).toEqual([user.id]);
    expect(await found("nobody is called that")).toEqual([]);
  });

  test.each([
    "limit=0",
    "limit=10001",
    "limit=x",
    "limit=1.5",
    "limit=1&limit=2",
    "cursor=",
    "cursor=x",
    "q=",
    `q=${"a".repeat(101)}`,
    "q=%00",
    "unknown=1",
  ])("?%s is refused", async (query) => {
    expect(codeOf(await api.call("GET", `/admin/users?${query}`, as(admin)))).toEqual([422, "VALIDATION"]);
  });
});

describe("POST /admin/users/:id/ban", () => {
  test("shuts the user out by every credential, until it is lifted", async () => {
    const user = await api.newUser();
    const { key } = await api.newKey(user);
    const answer = await act(user.id, "ban", { reason: "spam" });
    expect([answer.status, answer.body]).toEqual([200, { ok: true, id: user.id, banned: true }]);
    expect(codeOf(await api.call("GET", "/me", { key }))).toEqual([401, "UNAUTHORIZED"]);
    expect(await isIn(user)).toBe(false);
    expect(await stored(user.id)).toMatchObject({ banned: true, banReason: "spam", banExpires: null });

    const lifted = await act(user.id, "unban");
    expect([lifted.status, lifted.body]).toEqual([200, { ok: true, id: user.id, banned: false }]);
    expect((await api.call("GET", "/me", { key })).status).toBe(200);
    // The session is gone for good.
    expect(await isIn(user)).toBe(false);
    expect(await stored(user.id)).toMatchObject({ banned: false, banReason: null, banExpires: null });
  });

  test("keeps somebody with the right password out", async () => {
    const email = `${randomBytes(6).toString("hex")}@svc.test`;
    const password = "correct horse battery";
    const signUp = await api.request("POST", "/api/auth/sign-up/email", { body: { name: "Ada", email, password } });
    const id = signUp.body.user.id as string;
    await act(id, "ban");
    const signIn = () => api.request("POST", "/api/auth/sign-in/email", { body: { email, password } });
    expect((await signIn()).status).toBe(403);
    await act(id, "unban");
    expect((await signIn()).status).toBe(200);
  });

  test.each([
    { what: "no body", body: undefined },
    { what: "an empty object", body: {} },
    { what: "a reason", body: { reason: "why" } },
    { what: "an end", body: { expiresInSeconds: 60 } },
    { what: "an end in a second", body: { expiresInSeconds: 1 } },
  ])("takes $what", async ({ body }) => {
    expect((await act((await api.newUser()).id, "ban", body)).status).toBe(200);
  });

  test.each(["", "  "])("the reason %j is none", async (reason) => {
    const user = await api.newUser();
    expect((await act(user.id, "ban", { reason })).status).toBe(200);
    expect(await stored(user.id)).toMatchObject({ banned: true, banReason: null });
  });

  test("another ban takes the place of the one in force", async () => {
    const user = await api.newUser();
    await act(user.id, "ban", { reason: "a day", expiresInSeconds: 86_400 });
    await act(user.id, "ban");
    expect(await stored(user.id)).toMatchObject({ banned: true, banReason: null, banExpires: null });
  });

  test("of somebody who is not banned is lifted all the same", async () => {
    expect((await act((await api.newUser()).id, "unban")).body).toMatchObject({ banned: false });
  });
});

describe("POST /admin/users/:id/role", () => {
  test("makes an administrator, and takes it back at once", async () => {
    const user = await api.newUser();
    const { key } = await api.newKey(user);
    const made = await act(user.id, "role", { role: "admin" });
    expect([made.status, made.body]).toEqual([200, { ok: true, id: user.id, role: "admin" }]);
    expect((await api.call("GET", "/admin/users?limit=1", { key })).status).toBe(200);
    expect((await act(user.id, "role", { role: "user" })).body).toMatchObject({ role: "user" });
    expect(codeOf(await api.call("GET", "/admin/users?limit=1", { key }))).toEqual([403, "FORBIDDEN"]);
  });

  test("leaves other roles of the user alone", async () => {
    const user = await api.newUser();
    await api.db.updateTable("auth.user").set({ role: "support,admin" }).where("id", "=", user.id).execute();
    expect(await listedUser(user)).toMatchObject({ role: "admin" });
    await act(user.id, "role", { role: "user" });
    expect(await stored(user.id)).toMatchObject({ role: "user,support" });
    expect(await listedUser(user)).toMatchObject({ role: "user" });
  });
});

describe("POST /admin/users/:id/plan", () => {
  const limitsQueued = async () =>
    (
      await api.db.selectFrom("work_item").select("payload").where("kind", "=", "apply-limits").orderBy("id").execute()
    ).map(({ payload }) => (payload as { projectId: string }).projectId);

  /** A project of which something runs. */
  async function serving(user: TestUser) {
    const project = await api.newProject(user);
    await api.newTask(await api.newDeployment(project, { status: "running" }));
    return project;
  }

  test("gives the plan, and has its limits applied to each project of the user", async () => {
    const user = await api.newUser();
    const projects = [await serving(user), await serving(user)].map(({ id }) => id);
    const gone = await serving(user);
    await api.db.updateTable("project").set({ deleting_at: new Date() }).where("id", "=", gone.id).execute();
    await serving(await api.newUser());
    await api.newUser({ plan: { slug: "larger" } });
    const answer = await act(user.id, "plan", { plan: "larger" });
    expect([answer.status, answer.body]).toEqual([200, { ok: true, id: user.id, plan: "larger" }]);
    expect((await api.call("GET", "/me", as(user))).body.user.plan).toBe("larger");
    expect((await limitsQueued()).toSorted()).toEqual(projects.toSorted());

    expect((await act(user.id, "plan", { plan: "standard" })).body).toMatchObject({ plan: "standard" });
    expect(await listedUser(user)).toMatchObject({ plan: "standard" });
  });

  test("that is not there changes nothing", async () => {
    const user = await api.newUser({ plan: { slug: "kept" } });
    await serving(user);
    for (const plan of ["none", "KEPT", "kept ", "'", "x".repeat(41)]) {
      expect(codeOf(await act(user.id, "plan", { plan }))).toEqual([422, "UNKNOWN_PLAN"]);
    }
    expect((await api.call("GET", "/me", as(user))).body.user.plan).toBe("kept");
    expect(await limitsQueued()).toEqual([]);
  });

  test("may be one's own", async () => {
    const other = await api.newUser({ admin: true });
    expect((await act(other.id, "plan", { plan: "standard" }, other)).status).toBe(200);
  });
});

describe("what is refused", () => {
  const nobody = "11111111-2222-4333-8444-555555555555";
  const actions = [
    { action: "ban", body: {} },
    { action: "unban", body: undefined },
    { action: "role", body: { role: "user" } },
    { action: "plan", body: { plan: "standard" } },
  ];

  test.each(actions)("$action of nobody", async ({ action, body }) => {
    for (const id of [nobody, "x", "' or true --"])
      expect(codeOf(await act(encodeURIComponent(id), action, body))).toEqual([404, "NOT_FOUND"]);
  });

  test("banning, deleting and demoting oneself, however the id is written", async () => {
    const self = await api.newUser({ admin: true });
    for (const id of [self.id, self.id.toUpperCase()]) {
      expect(codeOf(await act(id, "ban", {}, self))).toEqual([400, "SELF_ACTION"]);
      expect(codeOf(await act(id, "role", { role: "user" }, self))).toEqual([400, "SELF_ACTION"]);
      expect(codeOf(await act(id, "role", { role: "admin" }, self))).toEqual([400, "SELF_ACTION"]);
      expect(codeOf(await api.call("DELETE", `/admin/users/${id}`, as(self)))).toEqual([400, "SELF_ACTION"]);
    }
    expect(await stored(self.id)).toMatchObject({ role: "admin", banned: null });
    expect(await isIn(self)).toBe(true);
  });

  test.each([
    { action: "ban", body: null },
    { action: "ban", body: [] },
    { action: "ban", body: '{"reason"' },
    { action: "ban", body: { reason: "a".repeat(501) } },
    { action: "ban", body: { reason: "a\nb" } },
    { action: "ban", body: { reason: 1 } },
    { action: "ban", body: { expiresInSeconds: -1 } },
    { action: "ban", body: { expiresInSeconds: 0 } },
    { action: "ban", body: { expiresInSeconds: 1e12 } },
    { action: "ban", body: { expiresInSeconds: 60.5 } },
    { action: "ban", body: { expiresInSeconds: "3600" } },
    { action: "ban", body: { expiresInSeconds: null } },
    { action: "ban", body: { until: "tomorrow" } },
    { action: "role", body: undefined },
    { action: "role", body: {} },
    { action: "role", body: { role: "root" } },
    { action: "role", body: { role: "admin,user" } },
    { action: "role", body: { role: ["admin"] } },
    { action: "role", body: { role: "user", plan: "standard" } },
    { action: "plan", body: undefined },
    { action: "plan", body: {} },
    { action: "plan", body: { plan: null } },
    { action: "plan", body: { plan: "" } },
    { action: "plan", body: { plan: 1 } },
  ])("$action with $body", async ({ action, body }) => {
    const user = await api.newUser();
    const answer = await api.call("POST", `/admin/users/${user.id}/${action}`, {
      ...as(admin),
      ...(body !== undefined && { body }),
      ...(typeof body === "string" && { headers: { "content-type": "application/json" } }),
    });
    expect(codeOf(answer)).toEqual([400, "INVALID_BODY"]);
    expect(await stored(user.id)).toMatchObject({ role: "user", banned: null });
  });

  test("whoever is no administrator, and an administrator's key that is limited", async () => {
    const user = await api.newUser();
    const project = await api.newProject(admin);
    const { key: scoped } = await api.newKey(admin, { scopes: ["projects:write"] });
    const { key: limited } = await api.newKey(admin, { projectIds: [project.id] });
    const ways: [CallOptions, number, string][] = [
      [{}, 401, "UNAUTHORIZED"],
      [as(user), 403, "FORBIDDEN"],
      [{ key: scoped }, 403, "FORBIDDEN_SCOPE"],
      [{ key: limited }, 403, "FORBIDDEN_SCOPE"],
    ];
    for (const [options, ...refusal] of ways) {
      for (const { action, body } of actions)
        expect(
          codeOf(await api.call("POST", `/admin/users/${user.id}/${action}`, { ...options, ...(body && { body }) })),
        ).toEqual(refusal);
      expect(codeOf(await api.call("GET", "/admin/users", options))).toEqual(refusal);
      expect(codeOf(await api.call("DELETE", `/admin/users/${user.id}`, options))).toEqual(refusal);
    }
  });
});

describe("administrators who act on one another at once", () => {
  const isAdmin = async (user: TestUser) => (await api.call("GET", "/admin/users?limit=1", as(user))).status === 200;

  test.each([
    { what: "demote", call: (by: TestUser, on: TestUser) => act(on.id, "role", { role: "user" }, by) },
    { what: "ban", call: (by: TestUser, on: TestUser) => act(on.id, "ban", {}, by) },
    { what: "delete", call: (by: TestUser, on: TestUser) => api.call("DELETE", `/admin/users/${on.id}`, as(by)) },
  ])("two that $what each other leave one", async ({ call }) => {
    for (let round = 0; round < 8; round += 1) {
      const [a, b] = [await api.newUser({ admin: true }), await api.newUser({ admin: true })];
      const answers = await Promise.all([call(a, b), call(b, a)]);
      expect(answers.map(({ status }) => status).filter((status) => status === 200)).toHaveLength(1);
      // The other one was one no more, when it was their turn or already when they knocked.
      expect(["FORBIDDEN", "UNAUTHORIZED"]).toContain(answers.find(({ status }) => status !== 200)?.body.error.code);
      expect([await isAdmin(a), await isAdmin(b)].filter(Boolean)).toHaveLength(1);
    }
  });

  test("three in a ring leave one at the least, and nobody waits for ever", async () => {
    for (let round = 0; round < 5; round += 1) {
      const ring = await Promise.all([1, 2, 3].map(() => api.newUser({ admin: true })));
      const answers = await Promise.all(
        ring.map((user, at) => act((ring[(at + 1) % 3] ?? user).id, "role", { role: "user" }, user)),
      );
      for (const { status } of answers) expect([200, 401, 403]).toContain(status);
      const left = await Promise.all(ring.map(isAdmin));
      expect(left.filter(Boolean).length).toBeGreaterThanOrEqual(1);
    }
  });

  test("many that ban the same user all do", async () => {
    const user = await api.newUser();
    const answers = await Promise.all(Array.from({ length: 5 }, () => act(user.id, "ban")));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
    expect(await isIn(user)).toBe(false);
  });
});
