import { systemClock } from "@svc/runtime/system";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startMariadb } from "../testing/mariadb.ts";
import { startPostgres } from "../testing/postgres.ts";
import { lineTo, newBranch, type TestBranch, type TestServer, testRunner } from "../testing/server.ts";
import { connectPostgres } from "./program/postgres/connection.ts";
import type { Asked, RequestName } from "./requests.ts";
import type { SqlRunner } from "./runner.ts";

let server: TestServer;
let runner: SqlRunner;
let branch: TestBranch;

const ask = async <N extends RequestName>(name: N, asked: Asked<N>) =>
  (await runner.ask(branch.target, name, asked)).given;
const sql = (text: string) => ask("query", { sql: text, rollback: false, readOnly: false });
const page = (table: string, how: Partial<Asked<"rows">> = {}) =>
  ask("rows", { table, limit: 50, offset: 0, orderBy: null, dir: "asc", ...how });
const refusedAs = (code: string) => ({ code });

const odd = 'o"d`d; drop table kept; --';

/** Values as they are written, as they are read, and the column that takes them; the same through editor and console. */
const corpus = {
  postgres: {
    start: startPostgres,
    types: {
      b: "boolean",
      i8: "bigint",
      num: "numeric",
      f: "double precision",
      raw: "bytea",
      j: "jsonb",
      js: "json",
      doc: "doc",
      e: "mood",
      bits: "bit(3)",
      t: "text",
      at: "timestamptz",
      d: "date",
      ints: "int[]",
      u: "uuid",
      span: "interval",
    },
    before: "create domain doc as jsonb; create type mood as enum ('sad', 'it''s \"ok\"')",
    values: [
      ["b", true, true],
      ["i8", "9223372036854775807", "9223372036854775807"],
      ["num", "1e1000", `1${"0".repeat(1_000)}`],
      ["num", "1.50", "1.50"],
      ["num", "NaN", "NaN"],
      ["f", 0.1, 0.1],
      ["f", "-Infinity", "-Infinity"],
      ["f", "NaN", "NaN"],
      ["raw", "\\x00ff", "\\x00ff"],
      ["j", { a: [1, null, "x"] }, '{"a": [1, null, "x"]}'],
      ["j", '{"a": 1.0}', '{"a": 1.0}'],
      ["js", '{"b":1,"b":2}', '{"b":1,"b":2}'],
      ["doc", { a: [1] }, '{"a": [1]}'],
      ["e", 'it\'s "ok"', 'it\'s "ok"'],
      ["bits", "101", "101"],
      ["t", "emoji 😀, 'quotes', $1, \\x, \n", "emoji 😀, 'quotes', $1, \\x, \n"],
      ["t", "", ""],
      ["t", null, null],
      ["at", "2026-01-02T03:04:05.678901+02:00", "2026-01-02 01:04:05.678901+00"],
      ["at", "infinity", "infinity"],
      ["d", "0044-03-15 BC", "0044-03-15 BC"],
      ["ints", "{1,NULL,3}", "{1,NULL,3}"],
      ["u", "00000000-0000-0000-0000-00000000000A", "00000000-0000-0000-0000-00000000000a"],
      ["span", "P1DT2H", "P1DT2H"],
    ],
    refused: [
      ["t", "a\0b"],
      ["e", "glad"],
      ["i8", "9223372036854775808"],
      ["b", "maybe"],
    ],
    quote: (name: string) => `"${name.replaceAll('"', '""')}"`,
    serial: "int generated always as identity primary key",
  },
  mariadb: {
    start: startMariadb,
    types: {
      b: "tinyint(1)",
      i8: "bigint unsigned",
      num: "decimal(65,0)",
      price: "decimal(10,2)",
      f: "double",
      raw: "longblob",
      bin: "varbinary(20)",
      j: "json",
      e: "enum('sad','it''s \"ok\"','😀')",
      es: "set('a','😀')",
      bits: "bit(10)",
      flag: "bit(1)",
      wide: "bit(64)",
      t: "longtext character set utf8mb4",
      at: "timestamp(6) null",
      d: "date",
      dt: "datetime",
      y: "year",
      span: "time",
    },
    before: "do 0",
    values: [
      ["b", true, 1],
      ["i8", "18446744073709551615", "18446744073709551615"],
      ["num", "9".repeat(65), "9".repeat(65)],
      ["price", "1.50", "1.50"],
      ["f", 0.1, 0.1],
      ["f", "1e300", 1e300],
      ["raw", "0x00ff", "0x00ff"],
      ["raw", "text", "0x74657874"],
      ["raw", "", "0x"],
      ["bin", "0xFF00", "0xff00"],
      ["j", { a: [1, null, "x"] }, '{"a":[1,null,"x"]}'],
      ["j", '{"a": 1.0}', '{"a": 1.0}'],
      ["e", 'it\'s "ok"', 'it\'s "ok"'],
      ["e", "😀", "😀"],
      ["es", "a,😀", "a,😀"],
      ["bits", "0x0201", "0x0201"],
      ["bits", 5, "0x0005"],
      ["bits", 1023, "0x03ff"],
      ["flag", true, "0x01"],
      ["flag", false, "0x00"],
      ["flag", 1, "0x01"],
      ["wide", "0xffffffffffffffff", "0xffffffffffffffff"],
      ["wide", "A", "0x0000000000000041"],
      ["t", "emoji 😀, 'quotes', ?, \\x, \n, NUL \0", "emoji 😀, 'quotes', ?, \\x, \n, NUL \0"],
      ["t", "", ""],
      ["t", null, null],
      ["at", "2026-01-02 03:04:05.678901", "2026-01-02 03:04:05.678901"],
      ["d", "0000-00-00", "0000-00-00"],
      ["dt", "0000-00-00 00:00:00", "0000-00-00 00:00:00"],
      ["y", 2026, 2026],
      ["y", "0000", "0000"],
      ["span", "-12:34:56", "-12:34:56"],
    ],
    refused: [
      ["e", "glad"],
      ["i8", "18446744073709551616"],
      ["bits", 1024],
      ["flag", "1"],
      ["wide", "0x010000000000000000"],
      ["j", "{"],
    ],
    quote: (name: string) => `\`${name.replaceAll("`", "``")}\``,
    serial: "int auto_increment primary key",
  },
} as const;

describe.each(["postgres", "mariadb"] as const)("the row editor of %s", (engine) => {
  const { start, types, before, values, refused, quote, serial } = corpus[engine];
  const isPostgres = engine === "postgres";

  beforeAll(async () => {
    server = await start();
    runner = testRunner();
    branch = await newBranch(runner, server);
    const columns = Object.entries(types).map(([name, type]) => `${name} ${type}`);
    await sql(`${before}; create table kept (id ${serial}, ${columns.join(", ")})`);
    await sql(`create table ${quote(odd)} (${quote(odd)} varchar(20) primary key, n int default 5)`);
    await sql(
      "create table pair (a bigint, b varchar(10), note text, primary key (b, a)); create table keyless (n int)",
    );
    await sql("create view seen as select * from keyless");
  });
  afterAll(async () => {
    await runner?.[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
  });

  test("reads what it wrote, and so does the console", { timeout: 240_000 }, async () => {
    for (const [column, written, want] of values) {
      const inserted = await ask("insert", { table: "kept", values: [[column, written as never]] });
      expect(inserted.rowCount).toBe(1);
      if (isPostgres) expect(Object.fromEntries(inserted.row ?? [])[column]).toEqual(want);
      const { columns, rows } = await page("kept", { orderBy: "id", dir: "desc", limit: 1 });
      expect(rows[0]?.[columns.findIndex(({ name }) => name === column)], column).toEqual(want);
    }
    for (const column of new Set(values.map(([name]) => name))) {
      const wanted = values.filter(([name]) => name === column).map(([, , want]) => want);
      const all = (await sql(`select ${column} from kept where ${column} is not null order by id`)).rows.flat();
      expect(all, column).toEqual(wanted.filter((value) => value !== null));
    }
  });

  test.each(refused.map(([column, value]) => ({ column, value })))(
    "says the engine's own words of $value in $column",
    async ({ column, value }) => {
      const insert = ask("insert", { table: "kept", values: [[column, value]] });
      await expect(insert).rejects.toMatchObject(refusedAs("QUERY_ERROR"));
    },
  );

  test("knows tables and columns with any name, and takes none for SQL", async () => {
    expect((await ask("insert", { table: odd, values: [[odd, "x'; --"]] })).rowCount).toBe(1);
    expect((await page(odd)).rows).toEqual([["x'; --", 5]]);
    expect((await page(odd, { orderBy: odd, dir: "desc" })).rows).toHaveLength(1);
    expect((await ask("update", { table: odd, pk: [[odd, "x'; --"]], changes: [["n", null]] })).rowCount).toBe(1);
    expect((await page(odd)).rows).toEqual([["x'; --", null]]);
    expect((await ask("delete", { table: odd, pk: [[odd, "x'; --"]] })).rowCount).toBe(1);
    for (const table of [
      'kept"; drop table kept; --',
      "kept`; drop table kept; --",
      "public.kept",
      "KEPT",
      "kept\0",
      "",
    ]) {
      await expect(page(table), table).rejects.toMatchObject(refusedAs("TABLE_NOT_FOUND"));
    }
    for (const orderBy of ["id; drop table kept", "id desc", "1", "ID", 'id"', "id`"]) {
      await expect(page("kept", { orderBy }), orderBy).rejects.toMatchObject(refusedAs("COLUMN_NOT_FOUND"));
    }
    expect((await ask("count", { table: "kept" })).count).toBeGreaterThan(0);
  });

  test("shows no view and no other schema as a table", async () => {
    const foreign = isPostgres ? ["seen", "pg_class", "nowhere"] : ["seen", "TABLES", "user", "nowhere"];
    for (const table of foreign) await expect(page(table), table).rejects.toMatchObject(refusedAs("TABLE_NOT_FOUND"));
  });

  test("tells neighbours apart where a number of JSON could not", async () => {
    for (const a of ["9007199254740992", "9007199254740993"]) {
      await ask("insert", {
        table: "pair",
        values: [
          ["a", a],
          ["b", "k"],
        ],
      });
    }
    const pk: [string, string][] = [
      ["a", "9007199254740993"],
      ["b", "k"],
    ];
    expect(await ask("update", { table: "pair", pk, changes: [["note", "this one"]] })).toEqual({ rowCount: 1 });
    expect((await page("pair")).rows).toEqual([
      ["9007199254740992", "k", null],
      ["9007199254740993", "k", "this one"],
    ]);
    expect(await ask("delete", { table: "pair", pk })).toEqual({ rowCount: 1 });
    expect(await ask("delete", { table: "pair", pk })).toEqual({ rowCount: 0 });
    expect(await ask("count", { table: "pair" })).toEqual({ count: 1 });
  });

  test("changes single rows by their whole key only", async () => {
    await expect(ask("delete", { table: "pair", pk: [["a", 1]] })).rejects.toMatchObject(refusedAs("INVALID_BODY"));
    await expect(ask("delete", { table: "keyless", pk: [["n", 1]] })).rejects.toMatchObject(
      refusedAs("NO_PRIMARY_KEY"),
    );
    const nothing = ask("update", { table: "kept", pk: [["id", 1]], changes: [] });
    await expect(nothing).rejects.toMatchObject(refusedAs("INVALID_BODY"));
  });

  test("changes no row by a text or a truth that is no number, though it begins with that of the row", async () => {
    await sql("create table numbered (id int primary key, n int); insert into numbered values (0, 0), (1, 1), (2, 2)");
    for (const id of ["2f1b6c1e-58a1-4c6b-9f4e-0123456789ab", "1abc", "abc", "", true]) {
      const pk: Asked<"delete">["pk"] = [["id", id]];
      const deleted = ask("delete", { table: "numbered", pk });
      await expect(deleted, `${id}`).rejects.toMatchObject(refusedAs("QUERY_ERROR"));
      const updated = ask("update", { table: "numbered", pk, changes: [["n", 7]] });
      await expect(updated, `${id}`).rejects.toMatchObject(refusedAs("QUERY_ERROR"));
    }
    expect((await page("numbered")).rows).toEqual([
      [0, 0],
      [1, 1],
      [2, 2],
    ]);
    expect(await ask("delete", { table: "numbered", pk: [["id", "2"]] })).toEqual({ rowCount: 1 });
  });

  if (!isPostgres)
    test("shows numbers of 32 bits with all of their digits, and knows rows by them", async () => {
      await sql("create table floats (f float primary key, n int); insert into floats values (0.1, 0), (16777215, 0)");
      expect((await page("floats")).rows).toEqual([
        [0.1, 0],
        [16_777_215, 0],
      ]);
      for (const f of [0.1, 16_777_215]) {
        const pk: Asked<"update">["pk"] = [["f", f]];
        expect(await ask("update", { table: "floats", pk, changes: [["n", 1]] }), `${f}`).toEqual({ rowCount: 1 });
        expect(await ask("delete", { table: "floats", pk }), `${f}`).toEqual({ rowCount: 1 });
      }
    });

  if (!isPostgres)
    test("knows rows by the bits of their key", async () => {
      await sql("create table flags (b bit(8) primary key, n int)");
      await ask("insert", { table: "flags", values: [["b", 5]] });
      expect(await ask("update", { table: "flags", pk: [["b", "0x05"]], changes: [["n", 1]] })).toEqual({
        rowCount: 1,
      });
      expect(await ask("delete", { table: "flags", pk: [["b", 5]] })).toEqual({ rowCount: 1 });
    });

  test("without values inserts the defaults", async () => {
    await sql(`create table plain (id ${serial}, n int default 7)`);
    expect((await ask("insert", { table: "plain", values: [] })).rowCount).toBe(1);
    expect((await page("plain")).rows).toEqual([[1, 7]]);
  });

  if (isPostgres)
    test("takes rows of a table without columns", async () => {
      await sql("create table bare ()");
      expect(await ask("insert", { table: "bare", values: [] })).toEqual({ row: [], rowCount: 1 });
      expect(await ask("count", { table: "bare" })).toEqual({ count: 1 });
      expect((await page("bare")).rows).toEqual([[]]);
    });
  else
    test("knows rows by a member of an ENUM that has a character beyond the basic plane", async () => {
      await sql("create table moods (e enum('b','😀') character set utf8mb4 primary key, n int)");
      await ask("insert", { table: "moods", values: [["e", "😀"]] });
      await ask("update", { table: "moods", pk: [["e", "😀"]], changes: [["n", 1]] });
      expect((await page("moods", { orderBy: "e" })).rows).toEqual([["😀", 1]]);
      expect(await ask("delete", { table: "moods", pk: [["e", "😀"]] })).toEqual({ rowCount: 1 });
    });

  test("pages by primary key, and says whether there is more", async () => {
    await sql("insert into pair (a, b) values (3, 'z'), (1, 'z'), (2, 'y')");
    const { rows, truncated } = await page("pair", { limit: 2, offset: 1 });
    expect(rows.map(([a, b]) => [a, b])).toEqual([
      ["2", "y"],
      ["1", "z"],
    ]);
    expect(truncated).toBe(true);
    expect((await page("pair", { limit: 2, offset: 2 })).truncated).toBe(false);
  });

  test("pages by a column through every row once, also through those with one value", async () => {
    const numbers = isPostgres
      ? "select n, n % 3 from generate_series(1, 900) n"
      : "select seq, seq % 3 from seq_1_to_900";
    await sql(`create table paged (id int primary key, state int); insert into paged ${numbers}`);
    await sql("create table heap (id int, state int); insert into heap select * from paged");
    for (const table of ["paged", "heap"]) {
      const seen = new Set<unknown>();
      for (let offset = 0; offset < 900; offset += 100) {
        const { rows } = await page(table, { orderBy: "state", dir: "desc", limit: 100, offset });
        for (const [id] of rows) seen.add(id);
      }
      expect(seen.size, table).toBe(900);
    }
  });

  test("says what a schema is made of", async () => {
    await sql(
      "create table child (id int primary key, pair_a bigint not null, pair_b varchar(10) not null default 'x', foreign key (pair_b, pair_a) references pair (b, a))",
    );
    await sql("create unique index child_pair on child (pair_a, pair_b)");
    await sql("create table unkeyed (code varchar(10) not null unique, v int)");
    if (isPostgres) await sql("create table covering (id int, note text, primary key (id) include (note))");
    const { tables, views, truncated } = await ask("schema", {});
    expect(truncated).toBe(false);
    const child = tables.find(({ name }) => name === "child");
    expect(child?.columns).toMatchObject([
      { name: "id", nullable: false, default: null, isPrimaryKey: true },
      { name: "pair_a", dataType: isPostgres ? "bigint" : "bigint(20)", nullable: false, isPrimaryKey: false },
      { name: "pair_b", default: expect.stringContaining("x") },
    ]);
    expect(child?.foreignKeys).toMatchObject([
      { columns: ["pair_b", "pair_a"], referencedTable: "pair", referencedColumns: ["b", "a"] },
    ]);
    expect(child?.indexes.find(({ name }) => name === "child_pair")?.definition).toMatch(/UNIQUE.*pair_a.*pair_b/);
    const keysOf = (table: string) =>
      tables
        .find(({ name }) => name === table)
        ?.columns.filter(({ isPrimaryKey }) => isPrimaryKey)
        .map(({ name }) => name);
    expect(keysOf("unkeyed")).toEqual([]);
    if (isPostgres) expect(keysOf("covering")).toEqual(["id"]);
    expect(tables.map(({ name }) => name)).toContain(odd);
    expect(views.map(({ name }) => name)).toEqual(["seen"]);
  });

  if (isPostgres)
    test("tells of a reference to a table in parts once, and of what its parts refer to", async () => {
      await sql("create table years (year int primary key) partition by range (year)");
      await sql("create table years_old partition of years for values from (0) to (2000)");
      await sql("create table years_new partition of years for values from (2000) to (3000)");
      await sql("create table events (year int references years (year)) partition by list (year)");
      await sql("create table events_2026 partition of events for values in (2026)");
      const { tables } = await ask("schema", {});
      const referenced = (table: string) =>
        tables.find(({ name }) => name === table)?.foreignKeys.map(({ referencedTable }) => referencedTable);
      expect([referenced("events"), referenced("events_2026")]).toEqual([["years"], ["years"]]);
    });

  if (isPostgres)
    test("leaves out of a schema what is dropped while it is looked at", async () => {
      await sql(
        "create table going (id int primary key); create table lasting (id int primary key, n int references going)",
      );
      await sql("create index lasting_n on lasting (n)");
      const line = await lineTo(server.socket)(systemClock.abortAfter(10_000));
      const { tenant } = branch.target;
      if (tenant === null) throw new Error("a branch of a test has a tenant");
      const { run } = await connectPostgres(line, tenant, {});
      for (const statement of ["begin", "drop table going cascade", "drop index lasting_n"])
        await run(statement, [], 1);
      const asked = ask("schema", {});
      const waiting = async () => (await run("select count(*)::int from pg_locks where not granted", [], 1)).rows;
      await expect.poll(waiting).toEqual([[1]]);
      await run("commit", [], 1);
      line.destroy();
      const { tables } = await asked;
      expect(tables.map(({ name }) => name)).not.toContain("going");
      expect(tables.find(({ name }) => name === "lasting")).toMatchObject({
        indexes: [{ name: "lasting_pkey" }],
        foreignKeys: [],
      });
    });

  test("knows migrations from whatever else has their name", async () => {
    expect(await ask("migrations", {})).toEqual({ tableExists: false, migrations: [] });
    await sql(`create view _svc_migrations as select 1 as name, 2 as ${quote("appliedAt")}`);
    expect(await ask("migrations", {})).toEqual({ tableExists: false, migrations: [] });
    await sql("drop view _svc_migrations; create table _svc_migrations (other int)");
    expect(await ask("migrations", {})).toEqual({ tableExists: false, migrations: [] });
    const time = isPostgres ? "timestamptz" : "datetime";
    await sql(
      `drop table _svc_migrations; create table _svc_migrations (name varchar(99) primary key, ${quote("appliedAt")} ${time})`,
    );
    expect(await ask("migrations", {})).toEqual({ tableExists: true, migrations: [] });
    await sql("insert into _svc_migrations values ('2.sql', '2026-01-02 00:00:00'), ('1.sql', '2026-01-01 00:00:00')");
    expect((await ask("migrations", {})).migrations).toEqual([
      { name: "1.sql", appliedAt: "2026-01-01T00:00:00.000Z" },
      { name: "2.sql", appliedAt: "2026-01-02T00:00:00.000Z" },
    ]);
  });
});
