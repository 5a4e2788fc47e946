import { buffer } from "node:stream/consumers";
import { systemClock } from "@svc/runtime/system";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createLog } from "../../../log.ts";
import { lockTable } from "../testing/lock.ts";
import { startMariadb } from "../testing/mariadb.ts";
import { startPostgres } from "../testing/postgres.ts";
import { newBranch, type TestBranch, type TestServer, testRunner } from "../testing/server.ts";
import type { ExportFormat } from "./requests.ts";
import type { SqlRunner } from "./runner.ts";
import { createTransfers } from "./transfers.ts";

const latin = (text: string): Buffer => Buffer.from(text, "latin1");
const odd = "emoji 😀, 'quotes' \"double\" \\back \\n $1 ,\r\n\ttab";
const engines = {
  postgres: {
    start: startPostgres,
    table: `create table "o""d d" (
      id bigint generated always as identity primary key, "a,""b'\\" text, n numeric, f float8, raw bytea, j jsonb, b boolean,
      at timestamptz, ints int[], twice bigint generated always as (id * 2) stored)`,
    values: [
      `insert into "o""d d" ("a,""b'\\", n, f, raw, j, b, at, ints) values
        ($1, 1e30, 'NaN', '\\x00ff', '{"a": 1.0}', true, '2026-01-02 03:04:05.678901+02', '{1,NULL}')`,
      `insert into "o""d d" ("a,""b'\\", n) values ('', 1.50)`,
      `insert into "o""d d" (n) values (-0.1)`,
    ],
    name: 'o"d d',
    quoted: '"o""d d"',
    json: [
      {
        ...{ id: "1", "a,\"b'\\": odd, n: `1${"0".repeat(30)}`, f: "NaN", raw: "\\x00ff", j: '{"a": 1.0}', b: true },
        ...{ at: "2026-01-02 01:04:05.678901+00", ints: "{1,NULL}", twice: "2" },
      },
      { id: "2", "a,\"b'\\": "", n: "1.50", f: null, raw: null, j: null, b: null, at: null, ints: null, twice: "4" },
      { id: "3", "a,\"b'\\": null, n: "-0.1", f: null, raw: null, j: null, b: null, at: null, ints: null, twice: "6" },
    ],
    trigger: `create function watch() returns trigger language plpgsql as $$ begin
        if new.id = 13 then raise 'unlucky'; end if; insert into seen values (new.id); return new; end $$;
      create trigger watch before insert on watched for each row execute function watch()`,
    series: "insert into big select n, repeat('x', 1000) from generate_series(1, 60000) n",
    lit: (text: string) => `convert_from('\\x${Buffer.from(text).toString("hex")}', 'UTF8')`,
  },
  mariadb: {
    start: startMariadb,
    table: `create table \`o"d d\` (
      id bigint auto_increment primary key, \`a,"b'\\\` text, n decimal(40,2), f double, raw blob, b bit(4),
      at timestamp(6) null, g float, y year, e enum('b','😀') character set utf8mb4, twice bigint as (f * 2) stored)`,
    values: [
      `insert into \`o"d d\` (\`a,"b'\\\`, n, f, raw, b, at, g, y, e) values
        ($1, 1e30, 0.1, 0x00ff, b'101', '2026-01-02 03:04:05.678901', 16777217, 2026, '😀')`,
      `insert into \`o"d d\` (\`a,"b'\\\`, n, raw) values ('', 1.50, '')`,
      `set session sql_mode = concat(@@sql_mode, ',NO_AUTO_VALUE_ON_ZERO'); insert into \`o"d d\` (id, n, f, g, y) values (0, -0.1, 0, 0.1, 0)`,
    ],
    name: 'o"d d',
    quoted: '`o"d d`',
    json: [
      {
        id: "0",
        "a,\"b'\\": null,
        n: "-0.10",
        f: 0,
        raw: null,
        b: null,
        at: null,
        g: 0.1,
        y: "0000",
        e: null,
        twice: "0",
      },
      {
        ...{ id: "1", "a,\"b'\\": odd, n: `1${"0".repeat(30)}.00`, f: 0.1, raw: "0x00ff", b: "0x05" },
        ...{ at: "2026-01-02 03:04:05.678901", g: 16_777_216, y: 2026, e: "😀", twice: "0" },
      },
      {
        id: "2",
        "a,\"b'\\": "",
        n: "1.50",
        f: null,
        raw: "0x",
        b: null,
        at: null,
        g: null,
        y: null,
        e: null,
        twice: null,
      },
    ],
    trigger: `create trigger watch before insert on watched for each row begin
        if new.id = 13 then signal sqlstate '45000' set message_text = 'unlucky'; end if; insert into seen values (new.id); end`,
    series: "insert into big select seq, repeat('x', 1000) from seq_1_to_60000",
    lit: (text: string) => `convert(0x${Buffer.from(text).toString("hex")} using utf8mb4)`,
  },
};

describe.each(["postgres", "mariadb"] as const)("on %s", (engine) => {
  const { start, table, values, name, quoted, json, trigger, series, lit } = engines[engine];
  let server: TestServer;
  let runner: SqlRunner;
  let branch: TestBranch;
  const transfers = createTransfers({ clock: systemClock, log: createLog("silent") });
  const sql = async (text: string) =>
    (await runner.ask(branch.target, "query", { sql: text, rollback: false, readOnly: false })).given.rows;
  const open = (format: ExportFormat, of = name, signal = new AbortController().signal, target = branch.target) =>
    transfers.exportTable(target, { table: of, format }, signal);
  const read = async (format: ExportFormat, of = name) => (await buffer(await open(format, of))).toString("utf8");
  const put = async (into: string, ...chunks: (string | Buffer)[]) =>
    (
      await transfers.importTable(
        branch.target,
        { table: into },
        (async function* () {
          for (const chunk of chunks) yield Buffer.from(chunk);
        })(),
      )
    ).given.rowCount;
  const rowsNow = async () => (await read("json")).split(/,?\n/).toSorted();
  const active = async () =>
    (await runner.ask(branch.target, "usage", { database: branch.database, role: branch.role })).given
      .activeConnections;
  const count = async (of: string) => Number((await sql(`select count(*) from ${of}`))[0]?.[0]);

  beforeAll(async () => {
    server = await start();
    runner = testRunner();
    branch = await newBranch(runner, server);
    await sql(table);
    for (const value of values) await sql(value.replace("$1", () => lit(odd)));
    await sql("create table plain (id int primary key, note varchar(20), n int)");
    await sql("create table big (id int primary key, note varchar(1000))");
    await sql(series);
    await sql("create table none (id int)");
  });
  afterAll(async () => {
    await runner?.[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
  });

  test("JSON has each value as the engine writes it", async () => {
    const rows = JSON.parse(await read("json"));
    expect(rows).toHaveLength(3);
    expect(rows).toEqual(expect.arrayContaining<unknown>(json));
    expect(JSON.parse(await read("json", "none"))).toEqual([]);
  });

  test("statements of SQL make the same rows again", async () => {
    const before = await rowsNow();
    const statements = await read("sql");
    await sql(`delete from ${quoted}`);
    await sql(statements);
    expect(await rowsNow()).toEqual(before);
  });

  test("a CSV makes the same rows again, null and empty apart", async () => {
    const before = await rowsNow();
    const csv = await read("csv");
    await sql(`delete from ${quoted}`);
    expect(await put(name, csv)).toBe(3);
    expect(await rowsNow()).toEqual(before);
    expect(await read("csv")).toBe(csv);
  });

  test("columns come in the order of the first line, which a mark of order may precede; what is not named gets its default", async () => {
    await sql("delete from plain");
    expect(await put("plain", "\ufeffnote,", 'id\n"",1\n,2\n"a\n', 'b",3')).toBe(3);
    expect(await sql("select id, note, n from plain order by id")).toEqual([
      [1, "", null],
      [2, null, null],
      [3, "a\nb", null],
    ]);
  });

  test.each([
    {
      when: "a value does not fit",
      csv: `id,note\n${"4,x\n5,y\n"}six,z\n`,
      code: "QUERY_ERROR",
      says: /^Line 4: .*six/s,
    },
    { when: "a key is there", csv: 'id,note\n7,"a\nb"\n7,c\n', code: "QUERY_ERROR", says: /^Line 4: .*7/s },
    { when: "a line is too short", csv: "id,note\n8,a\n9\n", code: "QUERY_ERROR", says: /^Line 3: / },
    {
      when: "a row has several lines",
      csv: 'id,note\n8,"a\nb"\nx,"c\nd"\n',
      code: "QUERY_ERROR",
      says: engine === "postgres" ? /^Line 5: / : /^Line 4: /,
    },
    { when: "it ends within quotes", csv: 'id,note\n8,a\n9,"b', code: "QUERY_ERROR", says: /^Line [34]: / },
    { when: "it is no UTF-8", csv: latin("id,note\n8,a\n9,\xff\n10,c\n"), code: "QUERY_ERROR", says: /^Line 3: / },
    {
      when: "a line is too long",
      csv: `id\n8\n${"9".repeat(9_000_000)}\n`,
      code: "QUERY_ERROR",
      says: /^Line 3: .*longer/,
    },
    { when: "the first line has no end", csv: ",".repeat(5_000), code: "QUERY_ERROR", says: /^Line 1: .*fields/ },
    { when: "a column is not there", csv: "id,nope\n8,a\n", code: "COLUMN_NOT_FOUND", says: /nope/ },
    { when: "a column is named twice", csv: "id,id\n8,8\n", code: "INVALID_BODY", says: /twice/ },
    {
      when: "a line is what Postgres takes for the end",
      csv: "id,note\n8,a\n\\.\n9,b\n",
      code: "QUERY_ERROR",
      says: engine === "postgres" ? /^Line 3: .*quotes/ : /^Line 3: .*fields/,
    },
    { when: "it is empty", csv: "", code: "INVALID_BODY", says: /first line/ },
  ])("nothing is inserted when $when, and it is told where", async ({ csv, code, says }) => {
    await sql("delete from plain");
    await expect(put("plain", csv)).rejects.toMatchObject({ code, message: expect.stringMatching(says) });
    expect(await count("plain")).toBe(0);
  });

  test("what a trigger refuses is told with its line, and nothing of what it wrote stays", async () => {
    await sql("create table seen (id int); create table watched (id int)");
    await sql(trigger);
    await expect(put("watched", "id\n1\n2\n13\n")).rejects.toMatchObject({
      code: "QUERY_ERROR",
      message: expect.stringMatching(/^Line 4: .*unlucky/),
    });
    expect(await count("seen")).toBe(0);
    expect(await put("watched", "id\n1\n2\n")).toBe(2);
    expect(await count("seen")).toBe(2);
  });

  test("a CSV brings back a text that would end it", async () => {
    await sql("create table dots (note varchar(20))");
    const csv = 'note\n"\\."\n';
    expect(await put("dots", csv)).toBe(1);
    expect(await read("csv", "dots")).toBe(csv);
  });

  test("a table of computed columns alone is exported as JSON, and as nothing that is read in again", async () => {
    await sql("create table computed (a int generated always as (7) stored)");
    expect(JSON.parse(await read("json", "computed"))).toEqual([]);
    for (const format of ["csv", "sql"] as const)
      await expect(open(format, "computed")).rejects.toMatchObject({ code: "QUERY_ERROR" });
  });

  test("nothing is inserted when the bytes break off, however many came", async () => {
    await sql("delete from plain");
    const rows = Array.from({ length: 50_000 }, (_, at) => `${at},x\n`).join("");
    const broken = transfers.importTable(
      branch.target,
      { table: "plain" },
      (async function* () {
        yield Buffer.from(`id,note\n${rows}`);
        throw new Error("the client went away");
      })(),
    );
    await expect(broken).rejects.toThrow("the client went away");
    expect(await put("plain", "id\n1\n")).toBe(1);
    expect(await count("plain")).toBe(1);
  });

  test("many rows go in and come out whole", async () => {
    await sql("delete from plain");
    const rows = Array.from({ length: 30_000 }, (_, at) => `${at},note ${at},${at * 2}\n`).join("");
    expect(await put("plain", `id,note,n\n${rows}`)).toBe(30_000);
    const lines = (text: string) => text.split("\n").toSorted();
    expect(lines(await read("csv", "plain"))).toEqual(lines(`id,note,n\n${rows}`));
  });

  test("two of an owner are under way at once, and a client that goes away ends its own", async () => {
    const stream = await open("csv", "big");
    stream.resume();
    await new Promise<void>((resolve) => stream.once("data", () => resolve()));
    stream.pause();
    const { signal } = new AbortController();
    const other = await open("csv", "big", signal, { ...branch.target, projectId: "another" });
    await expect(open("csv", "big")).rejects.toMatchObject({ code: "RATE_LIMITED" });
    const somebodyElses = { ...branch.target, ownerId: "somebody else" };
    expect((await buffer(await open("json", "none", signal, somebodyElses))).toString().trim()).toBe("[]");
    stream.destroy();
    other.destroy();
    await expect.poll(active, { timeout: 30_000 }).toBe(0);
    expect((await read("json", "none")).trim()).toBe("[]");
  });

  test("a table that another session keeps locked is said to be so", async () => {
    using _lock = await lockTable(server, branch, "plain");
    const said = { code: "QUERY_ERROR", message: expect.stringMatching(/lock.*timeout/i) };
    await expect(open("csv", "plain")).rejects.toMatchObject(said);
    await expect(put("plain", "id\n1\n")).rejects.toMatchObject(said);
  });

  test("a client that goes away before the first byte ends its own", async () => {
    using _lock = await lockTable(server, branch, "plain");
    const gone = new AbortController();
    const exported = [1, 2].map(() => open("csv", "plain", gone.signal));
    await expect.poll(active, { timeout: 30_000 }).toBe(3);
    gone.abort();
    for (const each of exported) await expect(each).rejects.toThrow(/broke off/);
    await expect.poll(active, { timeout: 30_000 }).toBe(1);
    expect((await read("json", "none")).trim()).toBe("[]");
  });

  test("a table that is not there is said to be so", async () => {
    await expect(open("csv", "nowhere")).rejects.toMatchObject({ code: "TABLE_NOT_FOUND" });
    await expect(put("nowhere", "id\n1\n")).rejects.toMatchObject({ code: "TABLE_NOT_FOUND" });
  });

  test("an export errors where the server breaks off", async () => {
    const stream = await open("csv", "big");
    await server.kill();
    await expect(buffer(stream)).rejects.toMatchObject({ code: "QUERY_ERROR" });
  });
});
