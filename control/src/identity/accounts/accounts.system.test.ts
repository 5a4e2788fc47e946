import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Answer, type TestApi, testApi } from "../../http/testing.ts";

let api: TestApi;
beforeAll(async () => {
  api = await testApi();
});
afterAll(async () => {
  await api[Symbol.asyncDispose]();
});

const codeOf = (answer: Answer) => [answer.status, answer.body.error?.code];

describe("GET /me", () => {
  test("says who, and what the key may do", async () => {
    const user = await api.newUser({ plan: { slug: "special" } });
    const projects = [await api.newProject(user), await api.newProject(user)].map(({ id }) => id);
    const { key } = await api.newKey(user, { scopes: ["deploy"], projectIds: projects.toReversed() });
    expect((await api.call("GET", "/me", { key })).body).toEqual({
      ok: true,
      user: { id: user.id, email: user.email, name: "Ada", plan: "special" },
      scopes: ["deploy"],
      projectIds: projects.toSorted(),
    });
  });
});

describe("GET /account/usage", () => {
  test("is the whole plan without its id, and what is used of it", async () => {
    const user = await api.newUser({ plan: { slug: "measured", max_databases: 0, monthly_requests: 1_000 } });
    const project = await api.newProject(user);
    await api.newDeployment(project);
    await api.newDeployment(project, { created_at: new Date(Date.now() - 3_700_000) });
    const pushed = (repository: string, digest: string | null, size_bytes: number | null) =>
      api.db
        .insertInto("artifact")
        .values({ id: crypto.randomUUID(), project_id: project.id, repository, kind: "image", digest, size_bytes })
        .execute();
    await pushed("svc/x/app", "sha256:a", 100);
    await pushed("svc/x/app", "sha256:a", 100);
    await pushed("svc/x/source", "sha256:b", 11);
    await pushed("svc/x/source", null, null);
    const gone = await api.newProject(user);
    await api.db.updateTable("project").set({ deleting_at: new Date() }).where("id", "=", gone.id).execute();
    const { body } = await api.call("GET", "/account/usage", { session: user.session });
    expect(body.usage).toEqual({
      projects: 1,
      monthlyRequests: 0,
      monthlyBandwidthMb: 0,
      diskBytes: 111,
      deploysLastHour: 1,
    });
    expect(body.plan).toMatchObject({
      slug: "measured",
      isDefault: false,
      databaseEnabled: false,
      monthlyRequests: 1_000,
      rateLimitPerMinute: null,
    });
    expect(Object.keys(body.plan)).toHaveLength(32);
    expect(body.plan).not.toHaveProperty("id");
  });
});

describe("POST /account/set-password", () => {
  const set = (session: string, newPassword: unknown) =>
    api.call("POST", "/account/set-password", { session, body: { newPassword } });

  test("gives a password to an account without one, once, also when asked twice at once", async () => {
    const user = await api.newUser();
    const answers = await Promise.all([
      set(user.session, "correct horse battery"),
      set(user.session, "correct horse battery"),
    ]);
    expect(answers.map(codeOf).sort()).toEqual([
      [200, undefined],
      [409, "PASSWORD_ALREADY_SET"],
    ]);
    expect((await api.call("GET", "/account", { session: user.session })).body.hasPassword).toBe(true);
    const signedIn = await api.request("POST", "/api/auth/sign-in/email", {
      body: { email: user.email, password: "correct horse battery" },
    });
    expect(signedIn.status).toBe(200);
    expect(codeOf(await set(user.session, "another password"))).toEqual([409, "PASSWORD_ALREADY_SET"]);
    // A better one would not be taken either.
    expect(codeOf(await set(user.session, "password123"))).toEqual([409, "PASSWORD_ALREADY_SET"]);
    expect(codeOf(await set(user.session, "short"))).toEqual([400, "BAD_REQUEST"]);
  });

  test("one that everybody would try first is refused with a word on what to do", async () => {
    const user = await api.newUser();
    for (const easy of ["password123", "12345678", user.email]) {
      const answer = await set(user.session, easy);
      expect(codeOf(answer)).toEqual([400, "SET_PASSWORD_FAILED"]);
      expect(answer.body.error.message).toContain("A few random words");
    }
    expect((await api.call("GET", "/account", { session: user.session })).body.hasPassword).toBe(false);
  });

  test("ends the other sessions, keeps the one that asked, and is in the audit without the password", async () => {
    const user = await api.newUser();
    const other = "o".repeat(32);
    await api.db
      .insertInto("auth.session")
      .values({
        id: crypto.randomUUID(),
        token: other,
        userId: user.id,
        expiresAt: new Date(Date.now() + 60_000),
        updatedAt: new Date(),
      })
      .execute();
    expect((await set(user.session, "correct horse battery")).status).toBe(200);
    const tokens = await api.db.selectFrom("auth.session").select("token").where("userId", "=", user.id).execute();
    expect(tokens).toEqual([{ token: user.session }]);
    const lines = await api.db.selectFrom("audit").selectAll().where("user_id", "=", user.id).execute();
    expect(lines).toMatchObject([{ action: "account.set-password", target: user.id, address: "127.0.0.1" }]);
    expect(JSON.stringify(lines)).not.toContain("horse");
  });

  test("asked for with a key it ends every session", async () => {
    const user = await api.newUser();
    const { key } = await api.newKey(user);
    const answer = await api.call("POST", "/account/set-password", {
      key,
      body: { newPassword: "correct horse battery" },
    });
    expect(answer.status).toBe(200);
    const left = await api.db.selectFrom("auth.session").select("token").where("userId", "=", user.id).execute();
    expect(left).toEqual([]);
    const limited = await api.newUser();
    const project = await api.newProject(limited);
    const { key: small } = await api.newKey(limited, { projectIds: [project.id] });
    const refused = await api.call("POST", "/account/set-password", {
      key: small,
      body: { newPassword: "correct horse battery" },
    });
    expect(codeOf(refused)).toEqual([403, "FORBIDDEN_SCOPE"]);
  });

  test.each(["short", "a".repeat(129), 12345678, null])("%j is refused", async (newPassword) => {
    const user = await api.newUser();
    expect(codeOf(await set(user.session, newPassword))).toEqual([400, "BAD_REQUEST"]);
    expect((await api.call("GET", "/account", { session: user.session })).body.hasPassword).toBe(false);
  });

  test("that fails for a reason of ours says so with its own code, and changes nothing", async () => {
    const user = await api.newUser();
    await sql`create function refuse_password() returns trigger language plpgsql as $$ begin raise 'out of luck'; end $$`.execute(
      api.db,
    );
    await sql`create trigger refuse_password before insert on auth.account for each row
      when (new."userId" = ${sql.lit(user.id)}) execute function refuse_password()`.execute(api.db);
    const answer = await set(user.session, "correct horse battery");
    expect(codeOf(answer)).toEqual([500, "SET_PASSWORD_FAILED"]);
    expect(answer.text).not.toContain("out of luck");
    expect((await api.call("GET", "/account", { session: user.session })).body.hasPassword).toBe(false);
  });

  test("no body, and one that is no JSON, have the same code", async () => {
    const { session } = await api.newUser();
    const post = (body: string) =>
      api.call("POST", "/account/set-password", { session, body, headers: { "content-type": "application/json" } });
    expect(codeOf(await post(""))).toEqual([400, "BAD_REQUEST"]);
    expect(codeOf(await post("{"))).toEqual([400, "BAD_REQUEST"]);
  });
});

test("linked accounts are named, without what they hold", async () => {
  const user = await api.newUser();
  for (const provider of ["githost", "githost", "credential"]) {
    await api.db
      .insertInto("auth.account")
      .values({
        id: crypto.randomUUID(),
        userId: user.id,
        providerId: provider,
        accountId: crypto.randomUUID(),
        accessToken: "plain token",
        updatedAt: new Date(),
      })
      .execute();
  }
  const answer = await api.call("GET", "/account", { session: user.session });
  expect(answer.body).toEqual({ ok: true, hasPassword: false, emailVerified: true, linkedProviders: ["githost"] });
});
