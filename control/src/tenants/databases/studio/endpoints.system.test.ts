import { afterAll, beforeAll, expect, test } from "vitest";
import { ApiError } from "../../../http/errors.ts";
import { type Answer, type TestApi, type TestUser, testApi } from "../../../http/testing.ts";
import { BranchNotReady } from "../ready-branch.ts";
import type { SqlRunner } from "../sql/runner.ts";
import { lockTable } from "../testing/lock.ts";
import { startPostgres } from "../testing/postgres.ts";
import { newBranch, type TestBranch, type TestServer, testRunner } from "../testing/server.ts";
import { studioOf } from "../testing/studio.ts";
import type { Studio } from "./studio.ts";

let server: TestServer;
let runner: SqlRunner;
let api: TestApi;
let user: TestUser;
let branch: TestBranch;
let base: string;
const sizes = new Map<string, number>();
/** Of the requests that reached the runner: whether their clients are gone. */
const clients: AbortSignal[] = [];

/** Branches in the place of the store's: production's is ready, preview's is not yet, and dev has none. */
function aStudio(): Studio {
  const studio = studioOf({ server, runner, branch });
  return {
    ...studio,
    async findReadyBranch(db, caller, projectId, channel) {
      const found = await studio.findReadyBranch(db, caller, projectId, channel);
      if (channel === "preview") throw new BranchNotReady("DATABASE_PROVISIONING");
      if (channel === "dev") throw new ApiError("NOT_FOUND");
      return found;
    },
    sql: {
      ask(target, name, asked, signal) {
        clients.push(signal ?? AbortSignal.any([]));
        return runner.ask(target, name, asked, signal);
      },
    },
    saveSize: async (_, databaseId, sizeBytes) => void sizes.set(databaseId, sizeBytes),
  };
}

beforeAll(async () => {
  server = await startPostgres();
  runner = testRunner();
  branch = await newBranch(runner, server);
  api = await testApi({ studio: aStudio() });
  user = await api.newUser();
  const project = await api.newProject(user);
  base = `/projects/${project.id}/database`;
  await query({ sql: "create table kept (id int primary key, note text); insert into kept values (1, 'one')" });
});
afterAll(async () => {
  await api?.[Symbol.asyncDispose]();
  await runner?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
});

const call = (method: string, path: string, body?: unknown): Promise<Answer> =>
  api.call(method, `${base}${path}`, { session: user.session, ...(body !== undefined && { body }) });
const query = (body: unknown, channel = ""): Promise<Answer> => call("POST", `/query${channel}`, body);
const rows = "/tables/kept/rows";

test("the console answers in the contract's shape", async () => {
  const { status, body } = await query({ sql: "select id, note from kept" });
  expect(status).toBe(200);
  expect(body).toEqual({
    ...{ ok: true, channel: "production", engine: "postgres", columns: ["id", "note"], rows: [[1, "one"]] },
    ...{ rowCount: 1, truncated: false, rolledBack: false, durationMs: expect.any(Number) },
  });
});

test("a dry run changes nothing and says so", async () => {
  const { body } = await query({ sql: "delete from kept", rollback: true });
  expect(body).toMatchObject({ rowCount: 1, rolledBack: true });
  expect((await call("GET", "/tables/kept/count")).body).toMatchObject({ ok: true, count: 1 });
});

test.each([
  { when: "the body says nothing", body: {}, code: "INVALID_BODY", status: 400 },
  { when: "the SQL is empty", body: { sql: " " }, code: "INVALID_BODY", status: 400 },
  {
    when: "the SQL is too long",
    body: { sql: `select '${"x".repeat(100 * 1024)}'` },
    code: "INVALID_BODY",
    status: 400,
  },
  { when: "the body says more", body: { sql: "select 1", as: "svc_admin" }, code: "INVALID_BODY", status: 400 },
  { when: "the engine refuses", body: { sql: "select * from nowhere" }, code: "QUERY_ERROR", status: 400 },
])("the console refuses when $when", async ({ body, code, status }) => {
  const answer = await query(body);
  expect(answer).toMatchObject({ status, body: { ok: false, error: { code } } });
  expect(answer.text).not.toContain(branch.password);
});

test("what waits for its turn is not done any more once its client has gone away", async () => {
  await query({ sql: "create table held (id int)" });
  const lock = await lockTable(server, branch, "held");
  const before = clients.length;
  const places = [1, 2, 3].map(() => query({ sql: "select * from held" }));
  await expect.poll(() => clients.length).toBe(before + places.length);
  const client = new AbortController();
  const waiting = fetch(`${api.url}/api/v1${base}/query`, {
    method: "POST",
    headers: { authorization: `Bearer ${user.session}`, "content-type": "application/json" },
    body: JSON.stringify({ sql: "insert into held values (1)" }),
    signal: client.signal,
  });
  waiting.catch(() => {});
  await expect.poll(() => clients.length).toBe(before + places.length + 1);
  client.abort();
  await expect.poll(() => clients.at(-1)?.aborted).toBe(true);
  lock[Symbol.dispose]();
  await Promise.all(places);
  expect((await query({ sql: "select count(*) from held" })).body).toMatchObject({ rows: [["0"]] });
  await query({ sql: "drop table held" });
});

test("a branch that is not there, or not yet, says which", async () => {
  expect(await query({ sql: "select 1" }, "?channel=preview")).toMatchObject({
    status: 409,
    body: { error: { code: "DATABASE_PROVISIONING" } },
  });
  expect(await query({ sql: "select 1" }, "?channel=dev")).toMatchObject({
    status: 404,
    body: { error: { code: "NOT_FOUND" } },
  });
  expect(await query({ sql: "select 1" }, "?channel=staging")).toMatchObject({
    status: 422,
    body: { error: { code: "VALIDATION" } },
  });
  // There is no schema before there is a database to have one; everything else says how far it is.
  expect(await call("GET", "/schema?channel=preview")).toMatchObject({
    status: 404,
    body: { error: { code: "NOT_FOUND", message: expect.stringContaining("still being created") } },
  });
  expect((await call("GET", "/migrations?channel=preview")).status).toBe(409);
  const stranger = await api.newUser();
  expect((await api.call("GET", `${base}/schema`, { session: stranger.session })).status).toBe(404);
});

test("rows are inserted, changed, read and deleted", async () => {
  const inserted = await call("POST", rows, { values: { id: 2, note: "two" } });
  expect(inserted).toMatchObject({ status: 200, body: { ok: true, row: { id: 2, note: "two" }, rowCount: 1 } });
  expect(await call("PATCH", rows, { pk: { id: 2 }, changes: { note: null } })).toMatchObject({
    status: 200,
    body: { rowCount: 1 },
  });
  const page = await call("GET", `${rows}?limit=1&orderBy=id&dir=desc`);
  expect(page.body).toMatchObject({
    ...{
      columns: [
        { name: "id", dataType: "integer" },
        { name: "note", dataType: "text" },
      ],
      rows: [[2, null]],
    },
    ...{ rowCount: 1, truncated: true, approxTotal: expect.any(Number) },
  });
  expect(await call("DELETE", rows, { pk: { id: 2 } })).toMatchObject({ status: 200, body: { rowCount: 1 } });
});

test.each([
  { when: "the table is unknown", method: "GET", path: "/tables/nowhere/rows", code: "TABLE_NOT_FOUND", status: 404 },
  {
    when: "the table to count is unknown",
    method: "GET",
    path: "/tables/nowhere/count",
    code: "TABLE_NOT_FOUND",
    status: 404,
  },
  {
    when: "the order is by no column",
    method: "GET",
    path: `${rows}?orderBy=nope`,
    code: "COLUMN_NOT_FOUND",
    status: 400,
  },
  ...["", "x".repeat(65)].map((name) => ({
    ...{ when: `the order is by ${name.length} letters, which no column has`, method: "GET", status: 400 },
    ...{ path: `${rows}?orderBy=${name}`, code: "COLUMN_NOT_FOUND" },
  })),
  {
    when: "no table has so long a name",
    method: "GET",
    path: `/tables/${"x".repeat(65)}/count`,
    code: "TABLE_NOT_FOUND",
    status: 404,
  },
  { when: "the page is too large", method: "GET", path: `${rows}?limit=201`, code: "VALIDATION", status: 422 },
  {
    when: "a value is for no column",
    method: "POST",
    path: rows,
    body: { values: { nope: 1 } },
    code: "COLUMN_NOT_FOUND",
    status: 400,
  },
  ...["", "x".repeat(65)].map((name) => ({
    ...{ when: `a value is for a name of ${name.length} letters`, method: "POST", path: rows },
    ...{ body: { values: { [name]: 1 } }, code: "COLUMN_NOT_FOUND", status: 400 },
  })),
  { when: "a body has no values", method: "POST", path: rows, body: {}, code: "INVALID_BODY", status: 400 },
  {
    when: "the key is another column",
    method: "DELETE",
    path: rows,
    body: { pk: { note: "one" } },
    code: "INVALID_BODY",
    status: 400,
  },
  {
    when: "the key is no column",
    method: "PATCH",
    path: rows,
    body: { pk: { nope: 1 }, changes: { note: "" } },
    code: "COLUMN_NOT_FOUND",
    status: 400,
  },
  {
    when: "a row is there already",
    method: "POST",
    path: rows,
    body: { values: { id: 1 } },
    code: "QUERY_ERROR",
    status: 400,
  },
])("row routes refuse when $when", async ({ method, path, body, code, status }) => {
  expect(await call(method, path, body)).toMatchObject({ status, body: { ok: false, error: { code } } });
});

test("the studio sees the schema, migrations and usage", async () => {
  const { body: schema } = await call("GET", "/schema");
  expect(schema).toMatchObject({ ok: true, channel: "production", engine: "postgres", views: [], truncated: false });
  expect(schema.tables).toMatchObject([
    { name: "kept", columns: [{ name: "id", isPrimaryKey: true }, { name: "note" }] },
  ]);
  expect((await call("GET", "/migrations")).body).toMatchObject({ tableExists: false, migrations: [] });
  const { body: usage } = await call("GET", "/usage");
  expect(usage).toMatchObject({
    ...{ sizeLimitMb: 100, readOnly: false, warning: null, connections: { active: 0, limit: 10 } },
    history: [{ sampledAt: "2030-01-01T00:00:00.000Z", sizeBytes: 5 }],
  });
  expect(usage.sizeBytes).toBeGreaterThan(0);
  expect(sizes.get(branch.id)).toBe(usage.sizeBytes);
});

// Nothing else may have tried to log in since: then nobody would have it looked at before the night.
test("a branch whose password was changed by SQL is looked at once the console is kept out", async () => {
  const looks = () => api.db.selectFrom("work_item").select(["kind", "payload"]).execute();
  expect((await query({ sql: "alter role current_user password 'another'" })).status).toBe(200);
  expect(await looks()).toEqual([]);
  for (const _ of [1, 2]) {
    expect(await query({ sql: "select 1" })).toMatchObject({
      status: 409,
      body: { error: { code: "DATABASE_NOT_READY" } },
    });
  }
  expect(await looks()).toEqual([{ kind: "database-check", payload: { databaseId: branch.id } }]);
});
