import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { apiEndpoints } from "../server.ts";
import { type Answer, type TestApi, type TestUser, testApi } from "./testing.ts";

let api: TestApi;
let admin: TestUser;
let projectId: string;
beforeAll(async () => {
  api = await testApi();
  admin = await api.newUser({ admin: true });
  projectId = (await api.newProject(admin)).id;
});
afterAll(() => api?.[Symbol.asyncDispose]());

const codeOf = ({ status, body }: Answer) => [status, body.error?.code];
/** Every call that creates something and says so at once; those that answer 202 are tested with what they start. */
const creating: { path: string; body: object; other: object; secret?: (answer: Answer) => string }[] = [
  { path: "/projects", body: { name: "Shop", type: "ssr" }, other: { name: "Shop", type: "static" } },
  { path: "/admin/plans", body: { slug: "once", name: "Once" }, other: { slug: "twice", name: "Once" } },
  { path: "/tokens", body: { name: "CI" }, other: { name: "Laptop" }, secret: ({ body }) => body.token.key },
  {
    path: "/admin/nodes/bootstrap-tokens",
    body: { role: "node" },
    other: { role: "edge" },
    secret: ({ body }) => body.bootstrapToken.token,
  },
  {
    path: "/projects/:id/database/saved-queries",
    body: { name: "all", sql: "select 1" },
    other: { name: "some", sql: "select 2" },
  },
];

test("these are all", () => {
  const known = creating.map(({ path }) => path).sort();
  expect(
    apiEndpoints
      .filter(({ status }) => status === 201)
      .map(({ path }) => path)
      .sort(),
  ).toEqual(known);
});

describe.each(creating)("POST $path, sent again with its Idempotency-Key", ({ path, body, other, secret }) => {
  const send = (key: string, sent: object) =>
    api.call("POST", path.replace(":id", projectId), {
      session: admin.session,
      body: sent,
      headers: { "idempotency-key": key },
    });

  test("creates once, also when both are under way at once", async () => {
    const key = `${path}-1`;
    const answers = await Promise.all([send(key, body), send(key, body)]);
    const created = answers.filter(({ status }) => status === 201);
    if (secret === undefined) {
      expect(created).toHaveLength(2);
      expect(created[0]?.text).toBe(created[1]?.text);
      return;
    }
    // Whoever lost the answer learns what to revoke, and nobody sees a secret again.
    const [first, again] = [created[0], answers.find(({ status }) => status !== 201)];
    if (first === undefined || again === undefined) throw new Error("not one of each");
    expect(codeOf(again)).toEqual([409, "IDEMPOTENCY_CONFLICT"]);
    expect(again.body.error.message).toContain((first.body.token ?? first.body.bootstrapToken).id);
    const hidden = secret(first).slice(-20);
    expect(again.text).not.toContain(hidden);
    const kept = await api.db.selectFrom("idempotency").selectAll().where("key", "=", key).execute();
    expect(JSON.stringify(kept)).not.toContain(hidden);
  });

  test("with another body is another request", async () => {
    await send(`${path}-2`, other);
    expect(codeOf(await send(`${path}-2`, body))).toEqual([409, "IDEMPOTENCY_CONFLICT"]);
  });

  test.each(["", "a b", "\u00fc", "x".repeat(256)])("with the key %j is refused", async (key) => {
    expect(codeOf(await send(key, body))).toEqual([422, "VALIDATION"]);
  });
});
