import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type TestApi, type TestUser, testApi } from "../../http/testing.ts";
import { findCredential } from "./store.ts";

const secret = "hunter2 hunter2 hunter2";
let api: TestApi;
let user: TestUser;
beforeAll(async () => {
  const resolve = async (name: string) => (name.endsWith("private.test") ? ["10.0.0.1"] : ["93.184.215.14"]);
  api = await testApi({ resolve, config: { registryAllow: ["10.0.0.5:5000", "127.0.0.1:9"] } });
  user = await api.newUser();
});
afterAll(() => api?.[Symbol.asyncDispose]());

const pathOf = (id: string) => `/projects/${id}/registry-credentials`;
const newProject = () => api.newProject(user, { type: "ociimage" });
const put = (id: string, host: unknown, more: object = {}) =>
  api.call("PUT", pathOf(id), { session: user.session, body: { host, username: "ada", secret, ...more } });
const get = (id: string) => api.call("GET", pathOf(id), { session: user.session });
const remove = (id: string, body: object) => api.call("DELETE", pathOf(id), { session: user.session, body });
const told = ({ status, body }: { status: number; body: { error?: { code: string } } }) => [status, body.error?.code];
const stored = (id: string, host: string) => findCredential(api.db, api.context.secrets, id, host);

test("a credential is created, shown without its secret, rotated and deleted", async () => {
  const { id } = await newProject();
  expect((await get(id)).body).toEqual({ ok: true, credentials: [] });
  const created = await put(id, "Registry.Example.TEST:443");
  expect(created.status).toBe(200);
  const credential = {
    host: "registry.example.test",
    configured: true,
    createdAt: expect.any(String),
    updatedAt: expect.any(String),
  };
  expect(created.body).toEqual({ ok: true, credential, rotated: false });
  expect(await stored(id, "registry.example.test")).toEqual({ username: "ada", secret });

  const rotated = await put(id, "registry.example.test", { username: "bob", secret: "new" });
  expect(rotated.body).toMatchObject({ rotated: true, credential: { createdAt: created.body.credential.createdAt } });
  expect(rotated.body.credential.updatedAt > created.body.credential.updatedAt).toBe(true);
  expect(await stored(id, "registry.example.test")).toEqual({ username: "bob", secret: "new" });
  expect((await get(id)).body.credentials).toEqual([rotated.body.credential]);

  const deleted = await remove(id, { host: "REGISTRY.example.test", confirm: true });
  expect([deleted.status, deleted.body]).toEqual([200, { ok: true, host: "registry.example.test" }]);
  expect(await stored(id, "registry.example.test")).toBeNull();
  for (const { text } of [created, rotated, deleted, await get(id)]) expect(text).not.toMatch(/hunter2|ada|bob/);
});

test("the secret lies sealed, and the audit log names the host and nothing more", async () => {
  const { id } = await newProject();
  await put(id, "registry.example.test");
  await put(id, "registry.example.test");
  await remove(id, { host: "registry.example.test", confirm: true });
  await put(id, "docker.io");
  const { sealed } = await api.db
    .selectFrom("registry_credential")
    .select("sealed")
    .where("project_id", "=", id)
    .executeTakeFirstOrThrow();
  expect(sealed.toString("latin1")).not.toMatch(/hunter2|ada/);
  const lines = await api.db
    .selectFrom("audit")
    .select(["action", "detail"])
    .where("target", "=", id)
    .orderBy("id")
    .execute();
  expect(lines).toEqual([
    { action: "registry-credential.create", detail: { host: "registry.example.test" } },
    { action: "registry-credential.rotate", detail: { host: "registry.example.test" } },
    { action: "registry-credential.delete", detail: { host: "registry.example.test" } },
    { action: "registry-credential.create", detail: { host: "docker.io" } },
  ]);
});

test("Docker Hub has one credential, however it is called", async () => {
  const { id } = await newProject();
  for (const host of ["docker.io", "index.docker.io", "registry-1.docker.io", "Docker.IO:443"]) await put(id, host);
  expect((await get(id)).body.credentials).toMatchObject([{ host: "docker.io" }]);
});

test("a project has five, also when ten are set at once, and any of them can be rotated", async () => {
  const { id } = await newProject();
  const answers = await Promise.all(Array.from({ length: 10 }, (_, n) => put(id, `r${n}.example.test`)));
  const refused = answers.filter(({ status }) => status !== 200);
  expect(refused.map(told)).toEqual(Array(5).fill([403, "QUOTA_EXCEEDED"]));
  const hosts = (await get(id)).body.credentials.map((each: { host: string }) => each.host);
  expect(hosts).toHaveLength(5);
  expect((await put(id, hosts[0])).body.rotated).toBe(true);
  await remove(id, { host: hosts[0], confirm: true });
  expect((await put(id, "another.example.test")).body.rotated).toBe(false);
});

test("rotating at once leaves one whole credential", async () => {
  const { id } = await newProject();
  const sets = [1, 2, 3, 4].map((n) => ({ username: `user${n}`, secret: `secret${n}` }));
  await Promise.all(sets.map((each) => put(id, "registry.example.test", each)));
  expect(sets).toContainEqual(await stored(id, "registry.example.test"));
});

test("what the operator allows may have one, the platform's own registry not", async () => {
  const { id } = await newProject();
  expect((await put(id, "10.0.0.5:5000")).status).toBe(200);
  expect(told(await put(id, "127.0.0.1:9"))).toEqual([422, "OCI_REFERENCE_INVALID"]);
});

describe("deleting", () => {
  test.each([{}, { confirm: false }, { confirm: "true" }, { confirm: 1 }, { confirm: null }])(
    "with %j is not confirmed",
    async (body) => {
      const { id } = await newProject();
      await put(id, "registry.example.test");
      const answer = await remove(id, { host: "registry.example.test", ...body });
      expect(told(answer)).toEqual([400, "DESTRUCTIVE_CONFIRMATION_REQUIRED"]);
      expect(await stored(id, "registry.example.test")).not.toBeNull();
    },
  );

  test("an unknown host is not found, also when it is another port of a known one", async () => {
    const { id } = await newProject();
    await put(id, "registry.example.test");
    for (const host of ["other.example.test", "registry.example.test:5000"])
      expect(told(await remove(id, { host, confirm: true }))).toEqual([404, "NOT_FOUND"]);
  });

  test("works when the host's name means nothing any more", async () => {
    const { id } = await newProject();
    await put(id, "registry.example.test");
    await api.db
      .updateTable("registry_credential")
      .set({ host: "gone.private.test" })
      .where("project_id", "=", id)
      .execute();
    expect((await remove(id, { host: "gone.private.test", confirm: true })).status).toBe(200);
  });
});

describe("refused", () => {
  test.each([
    "",
    "localhost",
    "registry",
    "127.0.0.1:5000",
    "0x7f.1",
    "[::1]",
    "localhost.",
    "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ",
    "registry.example.test/path",
    "https://registry.example.test",
    "user@registry.example.test",
    "registry.example.test:22",
    "registry.internal",
    "10.0.0.1.private.test",
    "a".repeat(300),
  ])("the host %j", async (host) => {
    const { id } = await newProject();
    expect(told(await put(id, host))).toEqual([422, "OCI_REFERENCE_INVALID"]);
    expect((await get(id)).body.credentials).toEqual([]);
  });

  test.each([
    { what: "no host", body: { host: undefined } },
    { what: "a host that is a number", body: { host: 1 } },
    { what: "no user name", body: { username: undefined } },
    { what: "an empty user name", body: { username: "" } },
    { what: "a user name with a colon", body: { username: "a:b" } },
    { what: "an empty secret", body: { secret: "" } },
    { what: "a secret of 64 KiB", body: { secret: "x".repeat(65_536) } },
    { what: "a secret with a line break", body: { secret: "a\nb" } },
    { what: "an unknown key", body: { email: "ada@svc.test" } },
  ])("$what", async ({ body }) => {
    const { id } = await newProject();
    const answer = await put(id, "registry.example.test", body);
    expect(told(answer)).toEqual([422, "VALIDATION"]);
    expect(answer.text).not.toContain("hunter2");
  });

  test.each(["ssr", "static"] as const)("projects of type %s", async (type) => {
    const { id } = await api.newProject(user, { type });
    const answers = [
      await get(id),
      await put(id, "registry.example.test"),
      await remove(id, { host: "registry.example.test", confirm: true }),
    ];
    for (const answer of answers) expect(told(answer)).toEqual([422, "VALIDATION"]);
  });

  test("other people", async () => {
    const { id } = await newProject();
    await put(id, "registry.example.test");
    const stranger = await api.newUser();
    for (const method of ["GET", "PUT", "DELETE"]) {
      const body =
        method === "PUT"
          ? { host: "registry.example.test", username: "eve", secret: "x" }
          : { host: "registry.example.test", confirm: true };
      const answer = await api.call(method, pathOf(id), {
        session: stranger.session,
        ...(method !== "GET" && { body }),
      });
      expect(told(answer)).toEqual([404, "NOT_FOUND"]);
    }
    expect(await stored(id, "registry.example.test")).toMatchObject({ username: "ada" });
  });
});

test("they go with their project", async () => {
  const { id } = await newProject();
  await put(id, "registry.example.test");
  await api.db.deleteFrom("site_host").where("project_id", "=", id).execute();
  await api.db.deleteFrom("project").where("id", "=", id).execute();
  expect(await stored(id, "registry.example.test")).toBeNull();
});
