import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Answer, type TestApi, type TestUser, testApi } from "../http/testing.ts";

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
    expect(listed.body.tokens[0]).toMatchObject({
      id: token.id,
      name: "CI",
      start: token.start,
      lastUsedAt: expect.any(String),
    });
    const audit = await api.db.selectFrom("audit").selectAll().where("target", "=", token.id).execute();
    expect(JSON.stringify(audit)).not.toContain(token.key.slice(10));
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

describe("revoking", () => {
  const remove = (id: string, by: { key?: string; session?: string } = { session: user.session }) =>
    api.call("DELETE", `/tokens/${id}`, by);

  test("ends the key at once, once", async () => {
    const { id, key } = await api.newKey(user);
    expect((await remove(id)).body).toEqual({ ok: true, id });
    expect((await api.call("GET", "/me", { key })).status).toBe(401);
    expect(codeOf(await remove(id))).toEqual([404, "NOT_FOUND"]);
  });

  test("self is the key that calls", async () => {
    const { id, key } = await api.newKey(user);
    expect((await remove("self", { key })).body).toEqual({ ok: true, id });
    expect(codeOf(await remove("self"))).toEqual([404, "NOT_FOUND"]);
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
