import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { Readable } from "node:stream";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { type Answer, type TestApi, type TestUser, testApi } from "../../../http/testing.ts";
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
let projectId: string;
/** What the plan and the night have to say of the branch. */
let facts: { readOnly?: boolean; sizeLimitMb?: number } = {};

function aStudio(): Studio {
  const studio = studioOf({ server, runner, branch });
  return {
    ...studio,
    async findReadyBranch(...asked) {
      const found = await studio.findReadyBranch(...asked);
      return { ...found, branch: { ...found.branch, ...facts } };
    },
  };
}

const sql = async (text: string) =>
  (await runner.ask(branch.target, "query", { sql: text, rollback: false, readOnly: false })).given.rows;

beforeAll(async () => {
  server = await startPostgres();
  runner = testRunner();
  branch = await newBranch(runner, server);
  api = await testApi({ studio: aStudio() });
  user = await api.newUser();
  projectId = (await api.newProject(user)).id;
  base = `/projects/${projectId}/database/tables`;
  await sql("create table kept (id int primary key, note text)");
  await sql('create table "a/b ""c"" é" (id int); insert into "a/b ""c"" é" values (1)');
});
afterAll(async () => {
  await api?.[Symbol.asyncDispose]();
  await runner?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
});
beforeEach(async () => {
  facts = {};
  await sql("truncate kept");
});

const get = (path: string): Promise<Answer> => api.call("GET", `${base}${path}`, { session: user.session });
const post = (body: string | Buffer, { type = "text/csv", path = "/kept/import" } = {}): Promise<Answer> =>
  api.call("POST", `${base}${path}`, { session: user.session, body, headers: { "content-type": type } });
const auditLines = () => api.db.selectFrom("audit").selectAll().where("target", "=", projectId).execute();
const refusal = (status: number, code: string, message = /./) => ({
  status,
  body: { ok: false, error: { code, message: expect.stringMatching(message) } },
});

test.each([
  { format: undefined, type: "text/csv; charset=utf-8", name: "kept.csv", text: 'id,note\n1,\n2,""\n3,"a,b"\n' },
  {
    format: "json",
    type: "application/json; charset=utf-8",
    name: "kept.json",
    text: '[\n{"id":1,"note":null},\n{"id":2,"note":""},\n{"id":3,"note":"a,b"}\n]\n',
  },
  {
    format: "sql",
    type: "application/sql; charset=utf-8",
    name: "kept.sql",
    text: `insert into "public"."kept" ("id", "note") overriding system value values\n('1',NULL),\n('2',''),\n('3','a,b');\n`,
  },
])("a table is a file of the format $format", async ({ format, type, name, text }) => {
  await sql("insert into kept values (1, null), (2, ''), (3, 'a,b')");
  const answer = await get(`/kept/export${format === undefined ? "" : `?format=${format}`}`);
  expect(answer).toMatchObject({ status: 200, text });
  expect(answer.headers.get("content-type")).toBe(type);
  expect(answer.headers.get("content-disposition")).toBe(`attachment; filename="${name}"`);
  expect(answer.headers.get("x-content-type-options")).toBe("nosniff");
});

test("a table of any name has a file of a harmless one", async () => {
  const answer = await get(`/${encodeURIComponent('a/b "c" é')}/export`);
  expect(answer).toMatchObject({ status: 200, text: "id\n1\n" });
  expect(answer.headers.get("content-disposition")).toBe('attachment; filename="a_b__c___.csv"');
});

test("an export is refused in JSON as long as nothing was written", async () => {
  expect(await get("/nowhere/export")).toMatchObject(refusal(404, "TABLE_NOT_FOUND"));
  expect(await get("/kept/export?format=xlsx")).toMatchObject(refusal(422, "VALIDATION"));
  expect(await get("/kept/export?channel=staging")).toMatchObject(refusal(422, "VALIDATION"));
  const stranger = await api.newUser();
  const foreign = await api.call("GET", `${base}/kept/export`, { session: stranger.session });
  expect(foreign).toMatchObject(refusal(404, "NOT_FOUND"));
  await sql("revoke select on kept from current_user; create table nothing ()");
  expect(await get("/kept/export")).toMatchObject(refusal(400, "QUERY_ERROR", /permission denied/));
  expect(await get("/nothing/export")).toMatchObject(refusal(400, "QUERY_ERROR", /no columns/));
  await sql("grant select on kept to current_user");
});

test("an export that breaks off in the middle never looks whole", async () => {
  await sql("create table long (id int, note text)");
  await sql("insert into long select n, repeat('x', 10000) from generate_series(1, 2000) n");
  const answer = await fetch(`${api.url}/api/v1${base}/long/export`, {
    headers: { authorization: `Bearer ${user.session}` },
  });
  expect(answer.status).toBe(200);
  const reader = answer.body?.getReader();
  await reader?.read();
  await sql("select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and usename = user");
  const readOn = async () => {
    for (;;) if ((await reader?.read())?.done === true) return "whole";
  };
  await expect(readOn()).rejects.toThrow();
});

test("a client that goes away before the first byte of an export frees its place", async () => {
  using lock = await lockTable(server, branch, "kept");
  const waiting = async () =>
    Number((await sql("select count(*) from pg_stat_activity where wait_event_type = 'Lock'"))[0]?.[0]);
  for (let time = 0; time < 3; time++) {
    const client = new AbortController();
    const headers = { authorization: `Bearer ${user.session}` };
    const answer = fetch(`${api.url}/api/v1${base}/kept/export`, { headers, signal: client.signal });
    answer.catch(() => {});
    await expect.poll(waiting).toBe(1);
    client.abort();
    await expect.poll(waiting).toBe(0);
  }
  lock[Symbol.dispose]();
  expect(await get("/kept/export")).toMatchObject({ status: 200, text: "id,note\n" });
});

test("a CSV's rows are in the table, and the audit has a line without them", async () => {
  const answer = await post('id,note\n1,secret-text\n2,\n3,""\n');
  expect(answer).toMatchObject({
    status: 200,
    body: { ok: true, channel: "production", engine: "postgres", rowCount: 3, durationMs: expect.any(Number) },
  });
  expect(await sql("select id, note from kept order by id")).toEqual([
    [1, "secret-text"],
    [2, null],
    [3, ""],
  ]);
  const line = (await auditLines()).find(({ action }) => action === "database.import");
  expect(line?.detail).toEqual({ channel: "production", table: "kept", rowCount: 3 });
});

test.each([
  { when: "a value does not fit", csv: "id\n1\nx\n", status: 400, code: "QUERY_ERROR", says: /^Line 3: / },
  {
    when: "it is no UTF-8",
    csv: Buffer.from("id,note\n1,\xff\n", "latin1"),
    status: 400,
    code: "QUERY_ERROR",
    says: /^Line 2: /,
  },
  { when: "a column is unknown", csv: "id,nope\n1,2\n", status: 400, code: "COLUMN_NOT_FOUND", says: /nope/ },
  { when: "a column is named twice", csv: "id,id\n1,2\n", status: 400, code: "INVALID_BODY", says: /twice/ },
  { when: "there is nothing", csv: "", status: 400, code: "INVALID_BODY", says: /first line/ },
  { when: "it is said to be JSON", csv: "{}", type: "application/json", status: 422, code: "VALIDATION" },
  { when: "the table is unknown", csv: "id\n1\n", path: "/nowhere/import", status: 404, code: "TABLE_NOT_FOUND" },
  { when: "the address says more", csv: "id\n1\n", path: "/kept/import?header=no", status: 422, code: "VALIDATION" },
])("an import is refused when $when, and leaves nothing", async ({ csv, type, path, status, code, says }) => {
  const answer = await post(csv, { ...(type && { type }), ...(path && { path }) });
  expect(answer).toMatchObject(refusal(status, code, says));
  expect(await sql("select count(*) from kept")).toEqual([["0"]]);
});

test("a key without the scope to write imports nothing, and exports", async () => {
  const { key } = await api.newKey(user, { scopes: ["projects:read"], projectIds: [projectId] });
  const headers = { "content-type": "text/csv" };
  const answer = await api.call("POST", `${base}/kept/import`, { key, body: "id\n1\n", headers });
  expect(answer).toMatchObject(refusal(403, "FORBIDDEN_SCOPE"));
  expect((await api.call("GET", `${base}/kept/export`, { key })).status).toBe(200);
});

test("a read-only branch takes no file, as the usage explains, and gives them", async () => {
  facts = { readOnly: true };
  expect(await post("id\n1\n")).toMatchObject(refusal(400, "QUERY_ERROR", /can only be read/));
  expect((await get("/kept/export")).status).toBe(200);
  expect(await sql("select count(*) from kept")).toEqual([["0"]]);
});

/** More than any buffer between client and server. */
const long = (first: string) => Buffer.from(`id,note\n${first}${"9,a note that is not short\n".repeat(1_000_000)}`);

test("a file that is larger than the plan leaves is refused, whether or not it tells its length", async () => {
  facts = { sizeLimitMb: 10 };
  expect(await post(long("1,\n"))).toMatchObject(refusal(403, "QUOTA_EXCEEDED"));
  const sent = upload();
  sent.stream.pipe(sent.request);
  sent.stream.push("id,note\n");
  for (let row = 0; row < 400_000; row++) sent.stream.push(`${row},a note that is not short\n`);
  expect((await sent.answer).statusCode).toBe(403);
  sent.request.destroy();
  expect(await sql("select count(*) from kept")).toEqual([["0"]]);
});

test("who sends much is told of its third line while it still sends", async () => {
  expect(await post(long("1,\nx,\n"))).toMatchObject(refusal(400, "QUERY_ERROR", /^Line 3: /));
});

/** A body that comes as it is pushed, in chunks, and the head of the answer. */
function upload() {
  const stream = new Readable({ read() {} });
  const request = httpRequest(`${api.url}/api/v1${base}/kept/import`, {
    method: "POST",
    headers: { "content-type": "text/csv", authorization: `Bearer ${user.session}` },
  });
  const answer = once(request, "response").then(([response]) => response as { statusCode: number });
  answer.catch(() => {});
  request.on("error", () => {});
  return { stream, request, answer };
}

test("a client that goes away in the middle leaves nothing, and its place is free", async () => {
  const active = async () =>
    Number((await sql("select count(*) from pg_stat_activity where state = 'active' and query like 'copy%'"))[0]?.[0]);
  for (let time = 0; time < 3; time++) {
    const { stream, request } = upload();
    stream.pipe(request);
    stream.push("id,note\n1,one\n");
    await expect.poll(active).toBe(1);
    request.destroy();
    await expect.poll(active).toBe(0);
  }
  expect(await post("id\n1\n")).toMatchObject({ status: 200, body: { rowCount: 1 } });
  expect(await sql("select count(*) from kept")).toEqual([["1"]]);
});
