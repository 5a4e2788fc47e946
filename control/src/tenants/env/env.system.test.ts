import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type TestApi, type TestUser, testApi } from "../../http/testing.ts";

let api: TestApi;
let user: TestUser;
beforeAll(async () => {
  api = await testApi();
  user = await api.newUser({ plan: { max_env_vars: 3 } });
});
afterAll(async () => {
  await api[Symbol.asyncDispose]();
});

const put = (id: string, body: unknown) => api.call("PUT", `/projects/${id}/env`, { session: user.session, body });
const get = (id: string) => api.call("GET", `/projects/${id}/env`, { session: user.session });

test("what is put is what is read, and nothing of what was there before", async () => {
  const { id } = await api.newProject(user);
  expect((await get(id)).body).toEqual({ ok: true, vars: {} });
  const first = await put(id, { vars: { ZED: "z", A: "line\nline", EMPTY: "" } });
  expect([first.status, first.body]).toEqual([200, { ok: true, keys: ["A", "EMPTY", "ZED"] }]);
  await put(id, { vars: { B: 'quotes " and é 🎉' } });
  expect((await get(id)).body).toEqual({ ok: true, vars: { B: 'quotes " and é 🎉' } });
  expect((await put(id, { vars: {} })).body.keys).toEqual([]);
});

test("values are sealed where they lie, each for its own place", async () => {
  const mine = await api.newProject(user);
  const other = await api.newProject(user);
  await put(mine.id, { vars: { SECRET: "plain text" } });
  const { value } = await api.db
    .selectFrom("env_var")
    .select("value")
    .where("project_id", "=", mine.id)
    .executeTakeFirstOrThrow();
  expect(value.includes("plain text")).toBe(false);
  await sql`insert into env_var (project_id, key, value) select ${other.id}, key, value from env_var where project_id = ${mine.id}`.execute(
    api.db,
  );
  const stolen = await get(other.id);
  expect(stolen.status).toBe(500);
  expect(stolen.body).toEqual({ ok: false, error: { code: "INTERNAL", message: expect.any(String) } });
  expect(stolen.text).not.toContain("plain text");
});

test("more variables than the plan allows are refused, and what was there stays", async () => {
  const { id } = await api.newProject(user);
  await put(id, { vars: { KEPT: "1" } });
  const answer = await put(id, { vars: { A: "1", B: "2", C: "3", D: "4" } });
  expect([answer.status, answer.body.error.code]).toEqual([422, "QUOTA_EXCEEDED"]);
  expect((await get(id)).body.vars).toEqual({ KEPT: "1" });
});

test("so are more than any plan allows, with the same code", async () => {
  const owner = await api.newUser({ plan: { max_env_vars: 1000 } });
  const { id } = await api.newProject(owner);
  const vars = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, at) => [`KEY_${at}`, ""]));
  const send = (count: number) =>
    api.call("PUT", `/projects/${id}/env`, { session: owner.session, body: { vars: vars(count) } });
  for (const count of [1001, 5000]) {
    const answer = await send(count);
    expect([answer.status, answer.body.error.code]).toEqual([422, "QUOTA_EXCEEDED"]);
    expect(answer.body.error.message).toContain("1000");
  }
  expect((await send(1000)).body.keys).toHaveLength(1000);
});

describe("refused", () => {
  test.each([
    { what: "no variables", body: {} },
    { what: "a list", body: { vars: ["A=1"] } },
    { what: "an empty name", body: { vars: { "": "1" } } },
    { what: "a name with =", body: { vars: { "A=B": "1" } } },
    { what: "a name that starts with a digit", body: { vars: { "1A": "1" } } },
    { what: "a name of the platform", body: { vars: { SVC_CHANNEL: "x" } } },
    { what: "a number", body: { vars: { A: 1 } } },
    { what: "null", body: { vars: { A: null } } },
    { what: "a NUL", body: { vars: { A: "a\u0000b" } } },
    { what: "a value of more than 32 KiB", body: { vars: { A: "a".repeat(32_769) } } },
    { what: "an unknown key", body: { vars: {}, merge: true } },
  ])("$what", async ({ body }) => {
    const { id } = await api.newProject(user);
    const answer = await put(id, body);
    expect([answer.status, answer.body.error.code]).toEqual([422, "VALIDATION"]);
  });
});

test("two writers at once leave the one or the other whole", async () => {
  const { id } = await api.newProject(user);
  const sets = [
    { A: "1", B: "1" },
    { B: "2", C: "2" },
  ];
  for (let round = 0; round < 5; round += 1) {
    await Promise.all(sets.map((vars) => put(id, { vars })));
    expect(sets).toContainEqual((await get(id)).body.vars);
  }
});

test("the scopes are apart: reading does not write, writing does not read", async () => {
  const { id } = await api.newProject(user);
  const { key: reader } = await api.newKey(user, { scopes: ["env:read"] });
  const { key: writer } = await api.newKey(user, { scopes: ["env:write"] });
  expect((await api.call("GET", `/projects/${id}/env`, { key: reader })).status).toBe(200);
  expect((await api.call("PUT", `/projects/${id}/env`, { key: reader, body: { vars: {} } })).status).toBe(403);
  expect((await api.call("PUT", `/projects/${id}/env`, { key: writer, body: { vars: {} } })).status).toBe(200);
  expect((await api.call("GET", `/projects/${id}/env`, { key: writer })).status).toBe(403);
});

test("reading and writing are audited without a value", async () => {
  const { id } = await api.newProject(user);
  await put(id, { vars: { SECRET: "plain text" } });
  await get(id);
  const lines = await api.db
    .selectFrom("audit")
    .select(["action", "detail"])
    .where("target", "=", id)
    .orderBy("id")
    .execute();
  expect(lines).toEqual([
    { action: "env.replace", detail: { count: 1 } },
    { action: "env.read", detail: { count: 1 } },
  ]);
});
