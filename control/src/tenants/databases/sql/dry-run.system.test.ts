import { afterAll, beforeAll, expect, test } from "vitest";
import { startPostgres } from "../testing/postgres.ts";
import { newBranch, type TestBranch, type TestServer, testRunner } from "../testing/server.ts";
import type { SqlRunner } from "./runner.ts";

let server: TestServer;
let runner: SqlRunner;
let branch: TestBranch;

const ask = (sql: string, how: { rollback?: boolean; readOnly?: boolean } = {}) =>
  runner.ask(branch.target, "query", { sql, rollback: false, readOnly: false, ...how });

beforeAll(async () => {
  server = await startPostgres();
  runner = testRunner();
  branch = await newBranch(runner, server);
  await ask(`
    create table kept (id int primary key, note text);
    insert into kept values (1, 'one'), (2, 'two');
    create sequence seats;
    create function writes() returns int language plpgsql security definer as
      $$ begin insert into kept values (100, 'written'); return 1; end $$;
    create procedure commits() language plpgsql as
      $$ begin insert into kept values (101, 'written'); commit; end $$;
    create procedure quiet() language plpgsql as $$ begin insert into kept values (102, 'written'); end $$`);
});

afterAll(async () => {
  await runner?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
});

/** All that a query may have left behind. */
async function durable(): Promise<unknown> {
  const { given } = await ask(`
    select (select json_agg(k order by id)::text from kept k),
      (select json_agg(relname || relkind::text order by relname)::text from pg_class where relnamespace = 'public'::regnamespace),
      (select json_agg(proname order by proname)::text from pg_proc where pronamespace = 'public'::regnamespace),
      (select json_agg(nspname order by nspname)::text from pg_namespace where nspname !~ '^pg_(toast_)?temp_'),
      (select count(*) from pg_largeobject_metadata), (select count(*) from pg_prepared_xacts),
      (select json_agg(extname order by extname)::text from pg_extension),
      (select json_agg(setconfig)::text from pg_db_role_setting), (select count(*) from pg_locks where locktype = 'advisory'),
      (select count(*) from pg_publication), (select rolconnlimit from pg_roles where rolname = current_user)`);
  return given.rows;
}

/** Each would change something for good without the transaction around it, or tries to leave it. */
const payloads: readonly { does: string; sql: string; refused: boolean }[] = [
  { does: "an insert", sql: "insert into kept values (3, 'three')", refused: false },
  { does: "a delete that returns", sql: "delete from kept returning *", refused: false },
  { does: "a table", sql: "create table extra (id int)", refused: false },
  { does: "a drop", sql: "drop table kept cascade", refused: false },
  { does: "a truncation", sql: "truncate kept", refused: false },
  {
    does: "a write within a WITH",
    sql: "with gone as (delete from kept returning *) select * from gone",
    refused: false,
  },
  { does: "a write within EXPLAIN ANALYZE", sql: "explain analyze delete from kept", refused: false },
  { does: "a block", sql: "do $$ begin delete from kept; end $$", refused: false },
  { does: "a function that writes", sql: "select writes()", refused: false },
  { does: "a procedure that writes", sql: "call quiet()", refused: false },
  { does: "a savepoint of its own", sql: "savepoint a; insert into kept values (4, ''); release a", refused: false },
  { does: "a way back to a savepoint", sql: "savepoint a; delete from kept; rollback to a; select 1", refused: false },
  { does: "a prepared write", sql: "prepare w as delete from kept; execute w", refused: false },
  {
    does: "a setting",
    sql: "set statement_timeout = 0; set default_transaction_read_only = off; delete from kept",
    refused: false,
  },
  { does: "a setting of the role", sql: "alter role current_user set work_mem = '8MB'", refused: false },
  { does: "an advisory lock", sql: "select pg_advisory_lock(7)", refused: false },
  { does: "a large object", sql: "select lo_create(0)", refused: false },
  { does: "a notification", sql: "notify seats, 'taken'", refused: false },
  { does: "a schema", sql: "create schema elsewhere; create table elsewhere.t ()", refused: false },
  { does: "an extension", sql: "create extension hstore", refused: false },
  {
    does: "deferred work of a cursor",
    sql: "declare c cursor with hold for delete from kept returning 1",
    refused: true,
  },
  { does: "a commit", sql: "insert into kept values (5, ''); commit", refused: true },
  { does: "a commit between", sql: "commit; create table e (i int); commit", refused: true },
  { does: "a commit by its other name", sql: "delete from kept; END", refused: true },
  { does: "a commit in odd letters", sql: "delete from kept; cOmMiT", refused: true },
  { does: "a commit behind comments", sql: "delete from kept; /* a /* b */ */ -- c\n commit", refused: true },
  { does: "a commit with a chain", sql: "delete from kept; commit and chain", refused: true },
  { does: "a rollback with a chain", sql: "rollback and chain; delete from kept; commit", refused: true },
  { does: "a rollback", sql: "rollback; delete from kept", refused: true },
  { does: "an abort", sql: "abort; delete from kept", refused: true },
  { does: "a transaction of its own", sql: "begin; delete from kept; commit", refused: true },
  { does: "the first of two phases", sql: "delete from kept; prepare transaction 'x'", refused: true },
  { does: "the second of two phases", sql: "commit prepared 'x'", refused: true },
  { does: "a commit in a block", sql: "do $$ begin delete from kept; commit; end $$", refused: true },
  { does: "a commit in a procedure", sql: "call commits()", refused: true },
  { does: "a commit by EXECUTE", sql: "do $$ begin execute 'commit'; end $$", refused: true },
  { does: "a prepared commit", sql: "prepare c as commit", refused: true },
  { does: "a commit after wide characters", sql: "select '😀😀é'; delete from kept; commit", refused: true },
  {
    does: "a commit after quotes",
    sql: "select $a$;$b$; commit;$a$, E'\\';', ';--'; delete from kept; commit",
    refused: true,
  },
  { does: "two statements as one", sql: "select 1;;; delete from kept;; commit;", refused: true },
  { does: "a copy into a table", sql: "copy kept from stdin", refused: true },
  { does: "a copy to a program", sql: "copy kept to program 'true'", refused: true },
  { does: "a subscription to notices", sql: "listen seats", refused: true },
  { does: "another server", sql: "select dblink_exec('dbname=postgres', 'delete from kept')", refused: true },
  { does: "a database", sql: "create database other", refused: true },
  { does: "a vacuum", sql: "vacuum kept", refused: true },
  { does: "an index beside writers", sql: "create index concurrently on kept (note)", refused: true },
  { does: "a mistake at the end", sql: "delete from kept; select 1/0", refused: true },
  { does: "a NUL", sql: "select 1\0; commit", refused: true },
  { does: "half of a pair of characters", sql: "select '\ud800'; delete from kept; commit", refused: true },
];

test.each(payloads)("a dry run of $does leaves nothing behind", async ({ sql, refused }) => {
  const before = await durable();
  const run = ask(sql, { rollback: true });
  if (refused) await expect(run).rejects.toMatchObject({ code: "QUERY_ERROR" });
  else expect((await run).given.rolledBack).toBe(true);
  expect(await durable()).toEqual(before);
});

const writes = payloads.filter(({ does }) => does !== "an advisory lock" && does !== "a notification");
test.each(writes)("a read-only query of $does leaves nothing behind", async ({ sql }) => {
  const before = await durable();
  await ask(sql, { readOnly: true }).catch((error) => expect(error).toMatchObject({ code: "QUERY_ERROR" }));
  expect(await durable()).toEqual(before);
});

test.each([
  "set transaction read write; delete from kept",
  "select set_config('transaction_read_only', 'off', false); delete from kept",
  "delete from kept",
  "select writes()",
])("a read-only query cannot write: %s", async (sql) => {
  await expect(ask(sql, { readOnly: true })).rejects.toMatchObject({ code: "QUERY_ERROR" });
});

test("a read-only query reads", async () => {
  const { given } = await ask("select note from kept order by id", { readOnly: true });
  expect(given).toMatchObject({ rows: [["one"], ["two"]], rolledBack: false });
});

test("a dry run shows what would be", async () => {
  const { given } = await ask("delete from kept where id = 1; select id from kept", { rollback: true });
  expect(given).toMatchObject({ columns: ["id"], rows: [[2]], rolledBack: true });
});
