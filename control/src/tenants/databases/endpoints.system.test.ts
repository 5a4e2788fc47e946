import { randomUUID } from "node:crypto";
import { databaseNames, type Scope } from "@svc/proto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type CallOptions, type TestApi, type TestUser, testApi } from "../../http/testing.ts";
import type { Branch, Channel, Plan, ProjectType } from "../../stores/db/tables.ts";
import { findBranch, insertBranch } from "./store.ts";

let api: TestApi;
let user: TestUser;
beforeAll(async () => {
  api = await testApi();
  user = await api.newUser();
});
afterAll(() => api?.[Symbol.asyncDispose]());

const engines = ["postgres", "mariadb"] as const;
const newProject = async (type: ProjectType = "ssr", owner = user) => (await api.newProject(owner, { type })).id;
const call = (method: string, path: string, options: CallOptions = {}) =>
  api.call(method, `/projects/${path}`, { session: user.session, ...options });
const told = ({ status, body }: { status: number; body: { error?: { code: string } } }) =>
  body.error === undefined ? `${status}` : `${status} ${body.error.code}`;
const change = (id: string, values: Partial<Branch>) =>
  api.db.updateTable("database").set(values).where("id", "=", id).execute();

/** A project whose channel has a branch. */
async function withBranch(
  status: Branch["status"],
  {
    channel = "production",
    engine = "postgres",
    owner = user,
  }: Partial<Pick<Branch, "channel" | "engine">> & {
    owner?: TestUser;
  } = {},
): Promise<{ id: string; databaseId: string }> {
  const id = await newProject("ssr", owner);
  const databaseId = randomUUID();
  await insertBranch(api.db, api.context.secrets, { id: databaseId, projectId: id, channel, engine });
  await change(databaseId, { status, reason: status === "error" ? "its disk is full" : null });
  return { id, databaseId };
}

const suspend = (id: string) =>
  api.db
    .updateTable("project")
    .set({ suspended_at: new Date(), suspend_reason: "admin" })
    .where("id", "=", id)
    .execute();

const workOf = (databaseId: string) =>
  api.db.selectFrom("work_item").select("kind").where("key", "=", `database/${databaseId}`).execute();

describe("making a branch", () => {
  test.each(engines)("of %s begins it, fixes the engine, and is the same when it comes again", async (engine) => {
    const id = await newProject();
    const made = await call("POST", `${id}/database`, { body: { engine } });
    expect([made.status, made.body]).toEqual([
      202,
      { ok: true, channel: "production", engine, databaseId: expect.any(String), status: "provisioning" },
    ]);
    expect(await workOf(made.body.databaseId)).toEqual([{ kind: "database" }]);
    expect((await call("POST", `${id}/database`)).body).toEqual(made.body);
    await change(made.body.databaseId, { status: "ready" });
    const again = await call("POST", `${id}/database`, { body: {} });
    expect(again.body).toEqual({ ...made.body, status: "ready" });
    // The other channels take the project's engine without being told.
    const preview = await call("POST", `${id}/database?channel=preview`);
    expect(preview.body).toMatchObject({ channel: "preview", engine, status: "provisioning" });
    expect(preview.body.databaseId).not.toBe(made.body.databaseId);
  });

  test("in error tries again under the same id", async () => {
    const { id, databaseId } = await withBranch("error");
    await change(databaseId, { tenant_at: new Date() });
    expect((await call("POST", `${id}/database`)).body).toMatchObject({ databaseId, status: "provisioning" });
    expect(await findBranch(api.db, id, "production")).toMatchObject({ reason: null, tenant_at: null });
    expect(await workOf(databaseId)).toHaveLength(1);
  });

  test("keeps the engine after the last branch is gone", async () => {
    const { id, databaseId } = await withBranch("ready", { engine: "mariadb" });
    await api.db.deleteFrom("database").where("id", "=", databaseId).execute();
    expect(told(await call("POST", `${id}/database`, { body: { engine: "postgres" } }))).toBe(
      "409 DATABASE_ENGINE_CONFLICT",
    );
    expect((await call("POST", `${id}/database`)).body).toMatchObject({ engine: "mariadb" });
  });

  test("waits for a drop, and is not for every type and channel", async () => {
    const { id } = await withBranch("dropping");
    expect(told(await call("POST", `${id}/database`))).toBe("409 DATABASE_NOT_READY");
    expect(told(await call("POST", `${await newProject("static")}/database`))).toBe("422 VALIDATION");
    expect(told(await call("POST", `${await newProject("ociimage")}/database?channel=dev`))).toBe("422 VALIDATION");
    expect(told(await call("POST", `${await newProject("ociimage")}/database?channel=preview`))).toBe("202");
  });

  test.each(["channel=staging", "channel=dev&channel=preview", "channel=", "branch=dev"])(
    "refuses ?%s",
    async (query) => {
      expect(told(await call("POST", `${await newProject()}/database?${query}`))).toBe("422 VALIDATION");
    },
  );

  test.each([{ engine: "mysql" }, { engine: null }, { size: 1 }, []])("refuses the body %j", async (body) => {
    expect(told(await call("POST", `${await newProject()}/database`, { body }))).toBe("422 VALIDATION");
  });

  test("counts projects, however many ask at once", async () => {
    const owner = await api.newUser({ plan: { max_databases: 2 } });
    const ids = await Promise.all([1, 2, 3, 4].map(() => newProject("ssr", owner)));
    const ask = (id: string, channel: Channel = "production") =>
      call("POST", `${id}/database?channel=${channel}`, { session: owner.session });
    const answers = await Promise.all(ids.map((id) => ask(id)));
    expect(answers.map(told).toSorted()).toEqual(["202", "202", "403 QUOTA_EXCEEDED", "403 QUOTA_EXCEEDED"]);
    const lucky = ids[answers.findIndex(({ status }) => status === 202)] ?? "";
    expect(told(await ask(lucky, "preview"))).toBe("202");
    expect(told(await ask(lucky, "dev"))).toBe("202");
    // Its last branch gives the place back.
    const other = ids[answers.findIndex(({ status }) => status === 403)] ?? "";
    await api.db.deleteFrom("database").where("project_id", "=", lucky).execute();
    expect(told(await ask(other))).toBe("202");
  });
});

test("what there is is shown, the missing included, and never an address or a password", async () => {
  const { id, databaseId } = await withBranch("error", { channel: "preview", engine: "mariadb" });
  await change(databaseId, { size_bytes: 5, read_only: true });
  const limits = { sizeLimitMb: 1024, connectionLimit: 20 };
  const absent = {
    ...{ engine: "mariadb", enabled: false, status: null, sizeBytes: 0, ...limits },
    ...{ reason: null, readOnly: false, protection: null, lastProvenRestore: null },
  };
  const preview = {
    ...{ channel: "preview", engine: "mariadb", enabled: true, status: "error", sizeBytes: 5, ...limits },
    ...{ reason: "its disk is full", readOnly: true, protection: "local", lastProvenRestore: null },
  };
  const branches = await call("GET", `${id}/database/branches`);
  expect(branches.body).toEqual({
    ok: true,
    engine: "mariadb",
    branches: [{ channel: "production", ...absent }, preview, { channel: "dev", ...absent }],
  });
  const one = await call("GET", `${id}/database?channel=preview`);
  expect(one.body).toEqual({ ok: true, ...preview });
  expect(branches.text + one.text).not.toMatch(/postgres:|mysql:|svc\.internal|r_[0-9a-f]{16}/);
  const none = await call("GET", `${await newProject()}/database`);
  expect(none.body).toMatchObject({ engine: null, enabled: false, status: null });
});

describe("dropping a branch", () => {
  test.each(["provisioning", "ready", "error", "dropping"] as const)("that is %s", async (status) => {
    const { id, databaseId } = await withBranch(status);
    for (const _ of ["once", "again"]) {
      const dropped = await call("DELETE", `${id}/database`);
      expect([dropped.status, dropped.body]).toEqual([
        202,
        { ok: true, channel: "production", engine: "postgres", databaseId, status: "dropping" },
      ]);
    }
    expect((await call("GET", `${id}/database`)).body).toMatchObject({ enabled: true, status: "dropping" });
    const lines = await api.db.selectFrom("audit").select("action").where("target", "=", id).execute();
    expect(lines).toHaveLength(status === "dropping" ? 0 : 1);
  });

  test("leaves the other channels alone, and is none where there is none", async () => {
    const { id } = await withBranch("ready");
    expect(told(await call("DELETE", `${id}/database?channel=dev`))).toBe("404 NOT_FOUND");
    expect((await call("GET", `${id}/database`)).body).toMatchObject({ status: "ready" });
  });
});

describe("the address of a branch", () => {
  test.each([
    { engine: "postgres", scheme: "postgres:", port: "5432" },
    { engine: "mariadb", scheme: "mysql:", port: "3306" },
  ] as const)("of $engine is private, or where the operator says", async ({ engine, scheme, port }) => {
    const { id, databaseId } = await withBranch("ready", { engine });
    const reveal = () => call("POST", `${id}/database/dev-credentials`);
    const { status, body } = await reveal();
    expect([status, body]).toEqual([
      200,
      {
        ...{ ok: true, channel: "production", engine, expiresAt: null },
        ...{ databaseUrl: expect.any(String), note: expect.stringMatching(/\.$/) },
      },
    ]);
    const url = new URL(body.databaseUrl);
    const { role, database } = databaseNames(databaseId);
    expect(url).toMatchObject({
      ...{ protocol: scheme, hostname: "db.svc.internal", port, username: role, pathname: `/${database}` },
      password: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/),
    });
    expect((await reveal()).body.databaseUrl).toBe(body.databaseUrl);

    const { databases } = api.context.config;
    databases.public[engine] = { host: "db.svc.test", port: 7000 };
    try {
      const moved = new URL((await reveal()).body.databaseUrl);
      expect([moved.host, moved.password]).toEqual(["db.svc.test:7000", url.password]);
    } finally {
      databases.public[engine] = null;
    }
  });

  test("changes with a rotation, once for as many as are asked for before it is there", async () => {
    const { id, databaseId } = await withBranch("ready");
    const other = await withBranch("ready");
    const password = async (of: string) =>
      new URL((await call("POST", `${of}/database/dev-credentials`)).body.databaseUrl).password;
    const [before, others] = [await password(id), await password(other.id)];
    const rotated = await call("POST", `${id}/database/rotate-credentials`);
    expect([rotated.status, rotated.body]).toEqual([
      202,
      { ok: true, channel: "production", engine: "postgres", status: "rotating", note: expect.any(String) },
    ]);
    const after = await password(id);
    expect(after).not.toBe(before);
    await call("POST", `${id}/database/rotate-credentials`);
    expect(await password(id)).toBe(after);
    expect(await password(other.id)).toBe(others);
    expect(await workOf(databaseId)).toHaveLength(1);
  });

  test("is not ready where it cannot be opened", async () => {
    const { id, databaseId } = await withBranch("ready");
    await change(databaseId, { secret: Buffer.from("sealed with a key that is gone") });
    expect(told(await call("POST", `${id}/database/dev-credentials`))).toBe("409 DATABASE_NOT_READY");
    const lines = await api.db.selectFrom("audit").select("action").where("target", "=", id).execute();
    expect(lines).toEqual([]);
  });

  test("lies sealed, and whoever saw it is in the audit", async () => {
    const { id, databaseId } = await withBranch("ready");
    const { body } = await call("POST", `${id}/database/dev-credentials`);
    const { password } = new URL(body.databaseUrl);
    const { secret, admin_secret } = await api.db
      .selectFrom("database")
      .selectAll()
      .where("id", "=", databaseId)
      .executeTakeFirstOrThrow();
    expect(Buffer.concat([secret, admin_secret]).toString("latin1")).not.toContain(password);
    const lines = await api.db.selectFrom("audit").select(["action", "detail"]).where("target", "=", id).execute();
    expect(lines).toEqual([
      { action: "database.reveal", detail: { channel: "production", engine: "postgres", databaseId } },
    ]);
  });
});

const branchRoutes = [
  ["POST", "dev-credentials"],
  ["POST", "rotate-credentials"],
] as const;

describe.each(branchRoutes)("%s %s", (method, route) => {
  test.each([
    { state: "absent", is: "404 NOT_FOUND" },
    { state: "provisioning", is: "409 DATABASE_PROVISIONING" },
    { state: "dropping", is: "409 DATABASE_NOT_READY" },
    { state: "error", is: "409 DATABASE_NOT_READY" },
  ] as const)("of a branch that is $state", async ({ state, is }) => {
    const id = state === "absent" ? await newProject() : (await withBranch(state)).id;
    expect(told(await call(method, `${id}/database/${route}`))).toBe(is);
  });
});

describe("a plan without databases, and a suspension", () => {
  const gated: [string, string, unknown?][] = [
    ["POST", "database"],
    ["POST", "database/dev-credentials"],
    ["POST", "database/rotate-credentials"],
    ["GET", "database/saved-queries"],
    ["POST", "database/saved-queries", { name: "all", sql: "select 1" }],
  ];
  const open: [string, string][] = [
    ["GET", "database"],
    ["GET", "database/branches"],
    ["DELETE", "database"],
  ];
  const poor: Partial<Plan> = { max_databases: 0 };

  test.each(gated)("refuse %s %s", async (method, path, body) => {
    const owner = await api.newUser({ plan: poor });
    const options = { session: owner.session, ...(body !== undefined && { body }) };
    const { id } = await withBranch("ready", { owner });
    expect(told(await call(method, `${id}/${path}`, options))).toBe("403 PLAN_FEATURE_UNAVAILABLE");
    const suspended = await withBranch("ready");
    await suspend(suspended.id);
    expect(told(await call(method, `${suspended.id}/${path}`, body === undefined ? {} : { body }))).toBe(
      "403 SUSPENDED",
    );
  });

  test.each(open)("let %s %s through, and the deletion of a query", async (method, path) => {
    const owner = await api.newUser({ plan: poor });
    const { id } = await withBranch("ready", { owner });
    await suspend(id);
    const queryId = randomUUID();
    await api.db.insertInto("saved_query").values({ id: queryId, project_id: id, name: "a", sql: "b" }).execute();
    expect(told(await call(method, `${id}/${path}`, { session: owner.session }))).toMatch(/^20[02]$/);
    const removed = await call("DELETE", `${id}/database/saved-queries/${queryId}`, { session: owner.session });
    expect(removed.body).toEqual({ ok: true, deleted: true });
  });
});

test("keys need the scope, and another's project is not there", async () => {
  const { id } = await withBranch("ready");
  const stranger = await api.newUser();
  const reveal = async (scopes: Scope[]) => {
    const { key } = await api.newKey(user, { scopes });
    return told(await api.call("POST", `/projects/${id}/database/dev-credentials`, { key }));
  };
  expect(await reveal(["database:credentials"])).toBe("200");
  expect(await reveal(["projects:write"])).toBe("200");
  expect(await reveal(["database:query", "projects:read"])).toBe("403 FORBIDDEN_SCOPE");
  for (const [method, path] of [...branchRoutes, ["GET", "branches"], ["GET", "saved-queries"]])
    expect(told(await call(method ?? "", `${id}/database/${path}`, { session: stranger.session }))).toBe(
      "404 NOT_FOUND",
    );
});

describe("saved queries", () => {
  const save = (id: string, name: string, sql = "select 1") =>
    call("POST", `${id}/database/saved-queries`, { body: { name, sql } });

  test("are the project's, by name", async () => {
    const id = await newProject();
    const saved = await save(id, "users", "select * from users");
    expect([saved.status, saved.body.query]).toEqual([
      201,
      {
        ...{ id: expect.any(String), name: "users", sql: "select * from users" },
        ...{ createdAt: expect.any(String), updatedAt: expect.any(String) },
      },
    ]);
    await save(id, "Orders");
    await save(id, "accounts");
    expect(told(await save(id, "users"))).toBe("409 CONFLICT");
    const { body } = await call("GET", `${id}/database/saved-queries`);
    expect(body.queries.map(({ name }: { name: string }) => name)).toEqual(["accounts", "Orders", "users"]);
    const path = `${id}/database/saved-queries/${saved.body.query.id}`;
    expect((await call("DELETE", path)).body).toEqual({ ok: true, deleted: true });
    expect(told(await call("DELETE", path))).toBe("404 NOT_FOUND");
  });

  test("of another project are not there to delete", async () => {
    const { body } = await save(await newProject(), "users");
    expect(told(await call("DELETE", `${await newProject()}/database/saved-queries/${body.query.id}`))).toBe(
      "404 NOT_FOUND",
    );
  });

  test("are twenty at most, however many come at once", async () => {
    const id = await newProject();
    const answers = await Promise.all(Array.from({ length: 24 }, (_, at) => save(id, `query ${at}`)));
    expect(answers.map(told).filter((each) => each === "201")).toHaveLength(20);
    expect(answers.map(told).filter((each) => each === "403 QUOTA_EXCEEDED")).toHaveLength(4);
  });

  test.each([
    { name: "", sql: "select 1" },
    { name: "x".repeat(101), sql: "select 1" },
    { name: "a", sql: "" },
    { name: "a", sql: "x".repeat(102_401) },
    { name: "a" },
    { name: "a", sql: "b", extra: 1 },
  ])("have a name and a text that fit: case %#", async (body) => {
    expect(told(await call("POST", `${await newProject()}/database/saved-queries`, { body }))).toBe("422 VALIDATION");
  });
});

test("administrators see every branch with what its owner's plan allows", async () => {
  const owner = await api.newUser({ plan: { db_size_mb: 1, db_connection_limit: 7 } });
  const { id, databaseId } = await withBranch("ready", { owner, channel: "dev" });
  await change(databaseId, { size_bytes: 1_048_577, connections: 3, measured_at: new Date() });
  const admin = await api.newUser({ admin: true });
  const list = async () => (await api.call("GET", "/admin/databases", { session: admin.session })).body.databases;
  const mine = async () => (await list()).find(({ projectId }: { projectId: string }) => projectId === id);
  expect(await mine()).toEqual({
    ...{ projectId: id, projectSlug: expect.any(String), channel: "dev", engine: "postgres", status: "ready" },
    ...{ ownerId: owner.id, ownerEmail: owner.email, sizeBytes: 1_048_577, connections: 3 },
    ...{ dbSizeMb: 1, dbConnectionLimit: 7, overLimit: true },
    ...{ id: databaseId, nodeId: null, generation: 1, coveredAt: null, changing: null },
    ...{ protection: "local", copy: null, offsiteAt: null, lastProvenRestore: null },
  });
  await change(databaseId, { size_bytes: 1_048_576, measured_at: new Date(0) });
  expect(await mine()).toMatchObject({ sizeBytes: 1_048_576, connections: null, overLimit: false });
});

describe("deleting what a branch belongs to", () => {
  test("a project drops its branches first", async () => {
    const { id, databaseId } = await withBranch("ready");
    expect(told(await api.call("DELETE", `/projects/${id}`, { session: user.session }))).toBe("200");
    expect(await findBranch(api.db, id, "production")).toMatchObject({ status: "dropping" });
    const work = await api.db
      .selectFrom("work_item")
      .select("kind")
      .where("key", "in", [id, `database/${databaseId}`])
      .orderBy("id")
      .execute();
    expect(work).toEqual([{ kind: "database" }, { kind: "teardown" }]);
  });

  test("a user takes theirs along", async () => {
    const owner = await api.newUser();
    const { id } = await withBranch("error", { owner });
    const admin = await api.newUser({ admin: true });
    await api.call("DELETE", `/admin/users/${owner.id}`, { session: admin.session });
    expect(await findBranch(api.db, id, "production")).toMatchObject({ status: "dropping", reason: null });
  });
});

test("a plan that allows other numbers has the branches of its accounts looked at, and of nobody else", async () => {
  const owner = await api.newUser({ plan: {} });
  const [{ databaseId }, other] = [await withBranch("ready", { owner }), await withBranch("ready")];
  const { plan_id } = await api.db
    .selectFrom("account")
    .select("plan_id")
    .where("user_id", "=", owner.id)
    .executeTakeFirstOrThrow();
  const admin = await api.newUser({ admin: true });
  const put = (body: object) => api.call("PUT", `/admin/plans/${plan_id}`, { session: admin.session, body });
  await put({ maxProjects: 7 });
  expect(await workOf(databaseId)).toEqual([]);
  await put({ dbConnectionLimit: 33 });
  await put({ dbSizeMb: 99 });
  expect(await workOf(databaseId)).toHaveLength(1);
  expect(await workOf(other.databaseId)).toEqual([]);
});
