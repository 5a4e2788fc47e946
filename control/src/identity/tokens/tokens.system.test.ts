import { limits } from "@svc/proto";
import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Answer, cookieOf, type TestApi, type TestUser, testApi } from "../../http/testing.ts";

let api: TestApi;
let user: TestUser;
beforeAll(async () => {
  api = await testApi();
  user = await api.newUser();
});
afterAll(async () => {
  await api[Symbol.asyncDispose]();
});

const create = (body: unknown) => api.call("POST", "/tokens", { session: user.session, body });
const codeOf = (answer: Answer) => [answer.status, answer.body.error?.code];

describe("creating", () => {
  test("gives the key once, and keeps a hash of it", async () => {
    const projects = [await api.newProject(user), await api.newProject(user)].map(({ id }) => id);
    const answer = await create({
      name: "CI",
      expiresIn: 86_400,
      scopes: ["deploy", "projects:read"],
      projectIds: projects,
    });
    expect(answer.status).toBe(201);
    const { token } = answer.body;
    expect(token).toEqual({
      id: expect.any(String),
      name: "CI",
      start: token.key.slice(0, 10),
      key: expect.stringMatching(/^svc_[A-Za-z0-9_-]{48}$/),
      scopes: ["deploy", "projects:read"],
      projectIds: projects.toSorted(),
      expiresAt: expect.any(String),
      createdAt: expect.any(String),
    });
    expect(Date.parse(token.expiresAt) - Date.parse(token.createdAt)).toBe(86_400_000);
    const me = await api.call("GET", "/me", { key: token.key });
    expect(me.body).toMatchObject({ scopes: ["deploy", "projects:read"], projectIds: projects.toSorted() });

    const row = await api.db.selectFrom("api_token").selectAll().where("id", "=", token.id).executeTakeFirstOrThrow();
    expect(JSON.stringify(row)).not.toContain(token.key.slice(10));
    const listed = await api.call("GET", "/tokens", { session: user.session });
    expect(listed.text).not.toContain(token.key);
    expect(listed.body.tokens[0]).toMatchObject({ id: token.id, name: "CI", start: token.start });
    const audit = await api.db.selectFrom("audit").selectAll().where("target", "=", token.id).execute();
    expect(JSON.stringify(audit)).not.toContain(token.key.slice(10));
  });

  test("for projects whose ids were written in capitals tells them as they are", async () => {
    const { id } = await api.newProject(user);
    const { body } = await create({ name: "CI", scopes: ["ci:deploy"], projectIds: [id.toUpperCase()] });
    expect(body.token.projectIds).toEqual([id]);
    expect((await api.call("GET", `/projects/${id.toUpperCase()}`, { key: body.token.key })).status).toBe(403);
    const revoked = await api.call("DELETE", `/tokens/${body.token.id.toUpperCase()}`, { session: user.session });
    expect(revoked.body).toEqual({ ok: true, id: body.token.id });
  });

  test("that fails for a reason of ours says so with its own code, and not that the request was wrong", async () => {
    await sql`create function refuse_key() returns trigger language plpgsql as $$ begin raise 'out of luck'; end $$`.execute(
      api.db,
    );
    await sql`create trigger refuse_key before insert on api_token for each row when (new.name = 'unlucky')
      execute function refuse_key()`.execute(api.db);
    const answer = await create({ name: "unlucky" });
    expect(codeOf(answer)).toEqual([500, "TOKEN_CREATE_FAILED"]);
    expect(answer.text).not.toContain("out of luck");
    expect(answer.body.error.message).toContain("try again");
    expect((await create({ name: "lucky" })).status).toBe(201);
  });

  test("with a name alone gives full access for ever", async () => {
    const { token } = (await create({ name: "cli @ ada-laptop" })).body;
    expect(token).toMatchObject({ scopes: null, projectIds: null, expiresAt: null });
    expect((await api.call("GET", "/account/usage", { key: token.key })).status).toBe(200);
  });

  test("for CI takes one project and no other scope", async () => {
    const [a, b] = [(await api.newProject(user)).id, (await api.newProject(user)).id];
    expect((await create({ name: "CI", scopes: ["ci:deploy"], projectIds: [a] })).status).toBe(201);
    for (const body of [
      { scopes: ["ci:deploy"] },
      { scopes: ["ci:deploy"], projectIds: [a, b] },
      { scopes: ["ci:deploy", "deploy"], projectIds: [a] },
    ]) {
      expect(codeOf(await create({ name: "CI", ...body }))).toEqual([422, "VALIDATION"]);
    }
  });

  test.each([
    { what: "no name", body: {} },
    { what: "an empty name", body: { name: "" } },
    { what: "a blank name", body: { name: "  " } },
    { what: "a name of 65 characters", body: { name: "a".repeat(65) } },
    { what: "no scope in the list", body: { name: "x", scopes: [] } },
    { what: "an unknown scope", body: { name: "x", scopes: ["*"] } },
    { what: "a scope twice", body: { name: "x", scopes: ["deploy", "deploy"] } },
    { what: "no project in the list", body: { name: "x", projectIds: [] } },
    {
      what: "26 projects",
      body: {
        name: "x",
        projectIds: Array.from({ length: 26 }, (_, at) => `00000000-0000-4000-8000-${String(at).padStart(12, "0")}`),
      },
    },
    { what: "a project that is none", body: { name: "x", projectIds: ["x"] } },
    { what: "an expiry with a fraction", body: { name: "x", expiresIn: 90_000.5 } },
    { what: "an expiry that is a text", body: { name: "x", expiresIn: "90000" } },
    { what: "another user's id", body: { name: "x", userId: "00000000-0000-4000-8000-000000000000" } },
  ])("with $what is refused", async ({ body }) => {
    expect(codeOf(await create(body))).toEqual([422, "VALIDATION"]);
  });

  test.each([0, -1, 86_399, 31_536_001])("an expiry of %s seconds is out of range", async (expiresIn) => {
    expect(codeOf(await create({ name: "x", expiresIn }))).toEqual([400, "TOKEN_CREATE_FAILED"]);
  });

  test("for a project of somebody else is refused like one that is not there", async () => {
    const foreign = await api.newProject(await api.newUser());
    const answers = [
      await create({ name: "x", projectIds: [foreign.id] }),
      await create({ name: "x", projectIds: ["00000000-0000-4000-8000-000000000000"] }),
    ];
    expect(answers.map(codeOf)).toEqual([
      [422, "VALIDATION"],
      [422, "VALIDATION"],
    ]);
    expect(answers[0]?.text).toBe(answers[1]?.text);
  });

  test("takes a session, never a key", async () => {
    const { key } = await api.newKey(user);
    expect(codeOf(await api.call("POST", "/tokens", { key, body: { name: "x" } }))).toEqual([403, "SESSION_REQUIRED"]);
  });
});

describe("as many as there may be", () => {
  const createBy = (owner: TestUser, body: object = { name: "x" }) =>
    api.call("POST", "/tokens", { session: owner.session, body });
  /** As if the owner had made so many. */
  const fill = (owner: TestUser, count: number, expiresAt: Date | null = null) =>
    api.db
      .insertInto("api_token")
      .values(
        Array.from({ length: count }, (_, at) => ({
          user_id: owner.id,
          name: "filler",
          start: "svc_filler",
          hash: Buffer.from(`${owner.id} ${at} ${expiresAt?.getTime()}`),
          expires_at: expiresAt,
        })),
      )
      .execute();
  const count = async (owner: TestUser) =>
    (await api.call("GET", "/tokens", { session: owner.session })).body.tokens.length;

  test("of two requests for the last place one wins", async () => {
    const owner = await api.newUser();
    await fill(owner, limits.tokensPerUserMax - 1);
    const answers = await Promise.all([createBy(owner), createBy(owner), createBy(owner)]);
    expect(answers.map(codeOf).sort()).toEqual([
      [201, undefined],
      [400, "TOKEN_CREATE_FAILED"],
      [400, "TOKEN_CREATE_FAILED"],
    ]);
    expect(answers.find(({ status }) => status === 400)?.body.error.message).toContain("Revoke one");
    expect(await count(owner)).toBe(limits.tokensPerUserMax);
    const [{ id }] = (await api.call("GET", "/tokens", { session: owner.session })).body.tokens;
    await api.call("DELETE", `/tokens/${id}`, { session: owner.session });
    expect((await createBy(owner)).status).toBe(201);
  });

  test("keys that have run out take nobody's place", async () => {
    const owner = await api.newUser();
    await fill(owner, 10);
    await fill(owner, limits.tokensPerUserMax - 10, new Date(Date.now() - 1000));
    expect(await count(owner)).toBe(limits.tokensPerUserMax);
    expect((await createBy(owner)).status).toBe(201);
    expect(await count(owner)).toBe(11);
  });

  test("somebody else's keys do not count", async () => {
    await fill(await api.newUser(), limits.tokensPerUserMax);
    expect((await createBy(await api.newUser())).status).toBe(201);
  });
});

describe("a request that is sent again with its Idempotency-Key", () => {
  const send = (owner: TestUser, body: object, key: string) =>
    api.call("POST", "/tokens", { session: owner.session, body, headers: { "idempotency-key": key } });
  const tokensOf = async (owner: TestUser) =>
    (await api.call("GET", "/tokens", { session: owner.session })).body.tokens as { id: string }[];

  test("makes one key, says which, and does not show it again", async () => {
    const owner = await api.newUser();
    const answers = await Promise.all([send(owner, { name: "CI" }, "k-1"), send(owner, { name: "CI" }, "k-1")]);
    const [made] = answers.filter(({ status }) => status === 201);
    const [again] = answers.filter(({ status }) => status !== 201);
    expect(again && codeOf(again)).toEqual([409, "IDEMPOTENCY_CONFLICT"]);
    expect(again?.body.error.message).toContain(made?.body.token.id);
    expect(again?.text).not.toContain(made?.body.token.key.slice(10));
    expect(await tokensOf(owner)).toHaveLength(1);
    const { rows } = await sql`select * from idempotency where user_id = ${owner.id}`.execute(api.db);
    expect(JSON.stringify(rows)).not.toContain(made?.body.token.key.slice(10));
  });

  test("is another one when anything differs, and free again when it failed", async () => {
    const owner = await api.newUser();
    expect((await send(owner, { name: "a" }, "k-2")).status).toBe(201);
    expect(codeOf(await send(owner, { name: "b" }, "k-2"))).toEqual([409, "IDEMPOTENCY_CONFLICT"]);
    expect((await send(owner, { name: "b", expiresIn: 1 }, "k-3")).status).toBe(400);
    expect((await send(owner, { name: "b", expiresIn: 86_400 }, "k-3")).status).toBe(201);
    expect(await tokensOf(owner)).toHaveLength(2);
  });
});

describe("revoking", () => {
  const remove = (id: string, by: { key?: string; session?: string } = { session: user.session }) =>
    api.call("DELETE", `/tokens/${id}`, by);

  test("ends the key at once, once", async () => {
    const { id, key } = await api.newKey(user);
    expect((await remove(id)).body).toEqual({ ok: true, id });
    expect((await api.call("GET", "/me", { key })).status).toBe(401);
    expect(codeOf(await remove(id))).toEqual([404, "NOT_FOUND"]);
  });

  test("self is the key that calls, whatever it may do besides", async () => {
    const project = await api.newProject(user);
    for (const grant of [{}, { scopes: ["env:read" as const] }, { projectIds: [project.id] }]) {
      const { id, key } = await api.newKey(user, grant);
      expect((await remove("self", { key })).body).toEqual({ ok: true, id });
      expect(codeOf(await api.call("GET", "/me", { key }))).toEqual([401, "UNAUTHORIZED"]);
      const audit = await api.db.selectFrom("audit").select("action").where("target", "=", id).execute();
      expect(audit).toEqual([{ action: "token.revoke" }]);
    }
  });

  test("a damaged key can still end itself", async () => {
    const { id, key } = await api.newKey(user);
    await api.db.updateTable("api_token").set({ scopes: '"*"' }).where("id", "=", id).execute();
    expect((await remove("self", { key })).body).toEqual({ ok: true, id });
  });

  test("a session is no key; signing out ends it, by cookie and by token", async () => {
    expect(codeOf(await remove("self"))).toEqual([404, "NOT_FOUND"]);
    const { url: origin } = api;
    const byToken = await api.newUser();
    await api.request("POST", "/api/auth/sign-out", { session: byToken.session, body: {} });
    expect((await api.call("GET", "/me", { session: byToken.session })).status).toBe(401);
    const byCookie = await api.newUser();
    const cookie = cookieOf(api.context.config, byCookie.session);
    await api.request("POST", "/api/auth/sign-out", { cookie, body: {}, headers: { origin } });
    expect((await api.call("GET", "/me", { session: byCookie.session })).status).toBe(401);
  });

  test("another user's key is not there", async () => {
    const { id, key } = await api.newKey(await api.newUser());
    expect(codeOf(await remove(id))).toEqual([404, "NOT_FOUND"]);
    expect((await api.call("GET", "/me", { key })).status).toBe(200);
    expect(codeOf(await remove("x"))).toEqual([404, "NOT_FOUND"]);
  });

  test("a key of some projects can end itself and see no other", async () => {
    const project = await api.newProject(user);
    const { key } = await api.newKey(user, { projectIds: [project.id] });
    const other = await api.newKey(user);
    expect(codeOf(await remove(other.id, { key }))).toEqual([403, "FORBIDDEN_SCOPE"]);
    expect(codeOf(await api.call("GET", "/tokens", { key }))).toEqual([403, "FORBIDDEN_SCOPE"]);
    expect((await remove("self", { key })).status).toBe(200);
  });
});
