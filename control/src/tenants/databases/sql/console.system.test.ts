import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startMariadb } from "../testing/mariadb.ts";
import { startPostgres } from "../testing/postgres.ts";
import { newBranch, type TestBranch, type TestServer, testRunner, whileSleeping } from "../testing/server.ts";
import type { SqlRunner, SqlTarget } from "./runner.ts";

const engines = [
  { engine: "postgres", start: startPostgres },
  { engine: "mariadb", start: startMariadb },
] as const;

let runner: SqlRunner;
beforeAll(() => {
  runner = testRunner();
});
afterAll(() => runner?.[Symbol.asyncDispose]());

const askOf = (target: SqlTarget, sql: string, readOnly = false) =>
  runner.ask(target, "query", { sql, rollback: false, readOnly });

describe.each(engines)("the console of $engine", ({ engine, start }) => {
  const isPostgres = engine === "postgres";
  let server: TestServer;
  let branch: TestBranch;
  beforeAll(async () => {
    server = await start();
    branch = await newBranch(runner, server);
  });
  afterAll(() => server?.[Symbol.asyncDispose]());
  const ask = (sql: string, readOnly = false) => askOf(branch.target, sql, readOnly);

  test("gives columns and rows by their places, also those of one name", async () => {
    const { given, durationMs } = await ask("select 1 as a, 'x' as a, null as b");
    expect(given).toEqual({
      ...{ columns: ["a", "a", "b"], rows: [[1, "x", null]], rowCount: 1, truncated: false, rolledBack: false },
    });
    expect(durationMs).toBeGreaterThanOrEqual(0);
  });

  test("gives what the last of several statements gave", async () => {
    await ask(
      "create table steps (id int primary key); insert into steps values (1), (2); insert into steps values (3)",
    );
    const { given } = await ask("insert into steps values (4); update steps set id = id + 10 where id > 2");
    expect(given).toMatchObject({ columns: [], rows: [], rowCount: 2 });
    expect((await ask("delete from steps; select count(*) from steps")).given.rows).toEqual([["0"]]);
  });

  test("gives what the last statement gave, also when remarks come after it", async () => {
    for (const remark of ["-- done", "/* done; */", "-- done\n;", "/* a */ -- b; c\n"]) {
      const { given } = await ask(`select 1; select 2 as b; ${remark}`);
      expect(given, remark).toMatchObject({ columns: ["b"], rows: [[2]], rowCount: 1 });
    }
  });

  if (!isPostgres)
    test("gives what a procedure gave", async () => {
      await ask("create procedure reports() begin select 1 as one; select 5 as five union select 6; end");
      for (const call of ["call reports()", "/* now */ CALL reports();", "call`reports`() ; -- done"])
        expect((await ask(call)).given, call).toMatchObject({ columns: ["five"], rows: [[5], [6]], rowCount: 2 });
      await ask("create procedure writes() insert into steps values (77), (78)");
      expect((await ask("call writes()")).given).toMatchObject({ columns: [], rows: [], rowCount: 2 });
      expect((await ask("call reports(); update steps set id = id")).given).toMatchObject({ columns: [], rows: [] });
    });

  test("gives nothing for nothing", async () => {
    const { given } = await ask(" -- nothing\n ;");
    expect(given).toMatchObject({ columns: [], rows: [], rowCount: isPostgres ? null : 0 });
  });

  test("cuts a long answer off", async () => {
    const [has, hasNoMore] = isPostgres
      ? ["select * from generate_series(1, 1000000)", "select * from generate_series(1, 500)"]
      : ["select seq from seq_1_to_1000000", "select seq from seq_1_to_500"];
    const { given } = await ask(has);
    // No engine is asked to count what nobody will see without an end.
    expect(given).toMatchObject({ truncated: true, rowCount: isPostgres ? 100_000 : 501 });
    expect(given.rows).toHaveLength(500);
    expect((await ask(hasNoMore)).given).toMatchObject({ truncated: false, rowCount: 500 });
  });

  test("counts all rows of an answer that is cut off", async () => {
    const series = isPostgres ? "select * from generate_series(1, 700)" : "select seq from seq_1_to_700 limit 700";
    expect((await ask(series)).given).toMatchObject({ truncated: true, rowCount: 700 });
    await ask("create table counted (id int primary key)");
    const { given } = await ask(`insert into counted ${series} returning id`);
    expect(given).toMatchObject({ truncated: true, rowCount: 700, columns: ["id"] });
    expect(given.rows).toHaveLength(500);
    expect((await ask("select count(*) from counted")).given.rows).toEqual([["700"]]);
    const deleted = await ask("delete from counted where id > 100 returning id");
    expect(deleted.given).toMatchObject({ truncated: true, rowCount: 600 });
  });

  test("says what the engine says of a mistake, and where", async () => {
    const where = isPostgres ? "(42P01, character 28)" : "(1146, 42S02)";
    await expect(ask("select 'é😀'; select * from nowhere")).rejects.toMatchObject({
      code: "QUERY_ERROR",
      message: expect.stringContaining(where),
    });
    await expect(ask("selec 1")).rejects.toMatchObject({
      code: "QUERY_ERROR",
      message: expect.stringContaining("syntax"),
    });
  });

  test("ends what never ends, and leaves no session behind", { timeout: 120_000 }, async () => {
    const endless = isPostgres
      ? `set statement_timeout = 0; do $$ begin loop begin perform pg_sleep(60); exception when query_canceled then null; end; end loop; end $$`
      : "set statement max_statement_time=0 for select sleep(600), sleep(600), sleep(600)";
    const started = performance.now();
    await expect(ask(endless)).rejects.toMatchObject({ code: "QUERY_ERROR", message: expect.stringContaining("10 s") });
    expect(performance.now() - started).toBeGreaterThan(9_500);
    const { database, role } = branch;
    await expect
      .poll(async () => (await runner.ask(branch.target, "usage", { database, role })).given.activeConnections)
      .toBe(0);
  });

  test("refuses an answer that is too large, and says what to do", async () => {
    const large = isPostgres ? "select repeat('x', 1000000000)" : "select repeat('x', 15000000), repeat('x', 1000000)";
    await expect(ask(large)).rejects.toMatchObject({ code: "QUERY_ERROR" });
    const rows = isPostgres
      ? "select repeat('x', 100000) from generate_series(1, 400)"
      : "select repeat('x', 100000) from seq_1_to_500 limit 400";
    await expect(ask(rows)).rejects.toMatchObject({ code: "QUERY_ERROR", message: expect.stringContaining("LIMIT") });
  });

  test("answers a hundred at once", async () => {
    const all = await Promise.all(Array.from({ length: 100 }, (_, n) => ask(`select ${n}`)));
    const want = Array.from({ length: 100 }, (_, n) => [[n]]);
    expect(all.map(({ given }) => given.rows)).toEqual(want);
  });

  test("knows no other database and no files", async () => {
    const refused = isPostgres
      ? [
          ...["select pg_read_file('/etc/passwd')", "create role other", "alter system set work_mem = '1MB'"],
          ...["select * from pg_authid", "set session authorization svc_admin", "select lo_import('/etc/passwd')"],
          ...["load 'dblink'", "set session_replication_role = replica", "alter role current_user superuser"],
        ]
      : [
          ...[
            "select 1 into outfile '/tmp/x'",
            "create user other",
            "set global read_only = on",
            "select * from mysql.global_priv",
          ],
          ...[
            "load data local infile '/etc/passwd' into table steps",
            "load data infile '/etc/passwd' into table steps",
          ],
          ...[
            "install soname 'ha_connect'",
            "create event e on schedule every 1 day do select 1",
            "create database other",
          ],
        ];
    for (const sql of refused) await expect(ask(sql), sql).rejects.toMatchObject({ code: "QUERY_ERROR" });
    if (!isPostgres) expect((await ask("select load_file('/etc/passwd')")).given.rows).toEqual([[null]]);
  });

  test("lets a read-only query read and nothing else", async () => {
    await ask("create table quiet (id int primary key)");
    expect((await ask("select count(*) from quiet", true)).given.rows).toEqual([["0"]]);
    const attempts = [
      ...[
        "insert into quiet values (1)",
        "commit; insert into quiet values (1)",
        "/* select */ insert into quiet values (1)",
      ],
      ...["/*! insert into quiet values (1) */", "begin not atomic commit; insert into quiet values (1); end"],
      ...["select 1; insert into quiet values (1)", "set session transaction read write"],
    ];
    for (const sql of attempts) {
      await ask(sql, true).catch((error) => expect(error, sql).toMatchObject({ code: "QUERY_ERROR" }));
      expect((await ask("select count(*) from quiet")).given.rows, sql).toEqual([["0"]]);
    }
    await expect(ask("insert into quiet values (1)", true)).rejects.toMatchObject({ code: "QUERY_ERROR" });
  });

  test("a session keeps nothing of the one before", async () => {
    await ask(
      isPostgres ? "set time zone 'Asia/Tokyo'; create temp table t (i int)" : "set @a = 1; set time_zone = '+09:00'",
    );
    const sql = isPostgres
      ? "select current_setting('timezone'), to_regclass('t')::text"
      : "select @@session.time_zone, @a";
    expect((await ask(sql)).given.rows).toEqual([[isPostgres ? "UTC" : "+00:00", null]]);
  });

  test("a wrong password is a database that is not ready", async () => {
    const { target } = branch;
    const wrong = { ...target, tenant: { user: branch.role, database: branch.database, password: "wrong" } };
    const message = expect.stringMatching(/^The database lets nobody in at the moment. Try again shortly. It said: ./);
    await expect(askOf(wrong, "select 1")).rejects.toMatchObject({ code: "DATABASE_NOT_READY", message });
  });

  test("the password is in nothing that a refusal says", async () => {
    const failures = ["select * from nowhere", "selec", isPostgres ? "select 1/0" : "select * from mysql.user"];
    for (const sql of failures) {
      const error = await ask(sql).catch((caught: Error) => caught);
      expect(JSON.stringify({ ...(error as Error), text: String(error) })).not.toContain(branch.password);
    }
  });

  test("a server that dies under a statement ends in a refusal", async () => {
    await using dying = await start();
    const dyingBranch = await newBranch(runner, dying);
    const { sleeping } = await whileSleeping(runner, dyingBranch);
    const refused = expect(sleeping).rejects.toMatchObject({ code: "QUERY_ERROR" });
    await dying.kill();
    await refused;
    await expect(askOf(dyingBranch.target, "select 1")).rejects.toMatchObject({ code: "DATABASE_NOT_READY" });
  });
});
