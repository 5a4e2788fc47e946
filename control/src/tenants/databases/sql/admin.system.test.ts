import { dirname } from "node:path";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startMariadb } from "../testing/mariadb.ts";
import { startPostgres } from "../testing/postgres.ts";
import {
  newBranch,
  type TestBranch,
  type TestServer,
  testRunner,
  verifierFor,
  whileSleeping,
} from "../testing/server.ts";
import { newPassword } from "./password.ts";
import type { SqlRunner } from "./runner.ts";

describe.each([
  { engine: "postgres", start: startPostgres },
  { engine: "mariadb", start: startMariadb },
] as const)("the platform on a server of $engine", ({ engine, start }) => {
  const isPostgres = engine === "postgres";
  let server: TestServer;
  let runner: SqlRunner;
  let branch: TestBranch;
  beforeAll(async () => {
    server = await start();
    runner = testRunner();
    branch = await newBranch(runner, server);
  });
  afterAll(async () => {
    await runner?.[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
  });

  const query = (text: string, password = branch.password) =>
    runner.ask(
      { ...branch.target, tenant: { user: branch.role, database: branch.database, password } },
      ...(["query", { sql: text, rollback: false, readOnly: false }] as const),
    );

  test("makes a branch that is there already, and brings it to what is asked", async () => {
    await query("create table kept (id int primary key)");
    const { database, role } = branch;
    const verifier = verifierFor(engine, branch.password);
    await runner.ask(branch.target, "createTenant", { database, role, verifier, connectionLimit: 7 });
    expect((await query("select count(*) from kept")).given.rows).toEqual([["0"]]);
    if (isPostgres) {
      const limit = await query("select rolconnlimit from pg_roles where rolname = current_user");
      expect(limit.given.rows).toEqual([[7]]);
    }
  });

  test("keeps a verifier that the server itself would make of the password", async () => {
    const { role } = branch;
    const kept = async () => (await runner.ask(branch.target, "readVerifier", { role })).given.verifier;
    expect(await kept()).toBe(verifierFor(engine, branch.password));
    // Changed by the tenant, behind our back.
    await query(isPostgres ? `alter role "${role}" password 'mine'` : "set password = password('mine')");
    expect(await kept()).not.toBe(verifierFor(engine, branch.password));
    await runner.ask(branch.target, "setVerifier", { role, verifier: verifierFor(engine, branch.password) });
    expect((await query("select 1")).given.rows).toEqual([[1]]);
    expect((await runner.ask(branch.target, "readVerifier", { role: "r_0000000000000000" })).given.verifier).toBeNull();
  });

  test("lets nobody in with the password before, and puts out who came in with it", async () => {
    const { role } = branch;
    const { sleeping } = await whileSleeping(runner, branch);
    const ended = expect(sleeping).rejects.toMatchObject({ code: "QUERY_ERROR" });
    const before = branch.password;
    const after = newPassword();
    await runner.ask(branch.target, "setVerifier", { role, verifier: verifierFor(engine, after) });
    await ended;
    await expect(query("select 1", before)).rejects.toMatchObject({ code: "DATABASE_NOT_READY" });
    branch.password = after;
    expect((await query("select 1")).given.rows).toEqual([[1]]);
  });

  test("sees to it that sessions which may undo that a branch is read-only do not", async () => {
    const { database, role } = branch;
    const hold = async (hasGrown = false) =>
      (await runner.ask(branch.target, "holdReadOnly", { database, role, hasGrown })).given.isSoft;
    if (!isPostgres) return expect(await hold()).toBe(false);
    const open = async () => {
      const client = new pg.Client({ host: dirname(server.socket), user: role, database, password: branch.password });
      const isOut = new Promise<void>((resolve) => client.on("error", () => resolve()));
      await client.connect();
      return { client, isOut };
    };
    const first = await open();
    expect(await hold()).toBe(true);
    expect((await first.client.query("select 1 as one")).rows).toEqual([{ one: 1 }]);
    // It grew: somebody wrote.
    await hold(true);
    await first.isOut;

    const lasting = [`role "${role}"`, `role "${role}" in database "${database}"`, `database "${database}"`];
    for (const whose of lasting) await query(`alter ${whose} set default_transaction_read_only = off`);
    const undone = "select count(*)::int from pg_db_role_setting where setconfig::text like '%read_only%'";
    expect((await query(undone)).given.rows).toEqual([[3]]);
    await hold();
    expect((await query(undone)).given.rows).toEqual([[0]]);

    const writing = await open();
    await writing.client.query("begin");
    await writing.client.query("insert into kept values (77)");
    await hold();
    await writing.isOut;
    expect((await query("select count(*)::int from kept where id = 77")).given.rows).toEqual([[0]]);
  });

  test("keeps a tenant out, ends who is in, and tells where the log is, until it is let in again", async () => {
    const { database, role, password } = branch;
    const tenant = { user: role, database, password };
    const { sleeping } = await whileSleeping(runner, { ...branch, target: { ...branch.target, tenant } });
    const ended = expect(sleeping).rejects.toMatchObject({ code: "QUERY_ERROR" });
    const slot = isPostgres ? "svc_copy_0123456789abcdef" : null;
    const { position, isCopied } = (await runner.ask(branch.target, "freeze", { role, slot, waitMs: 0 })).given;
    await ended;
    expect(isCopied).toBe(false);
    expect(position).toMatch(isPostgres ? /^[0-9A-F]+\/[0-9A-F]+$/ : /^([0-9]+-[0-9]+-[0-9]+)?$/);
    await expect(query("select 1")).rejects.toMatchObject({ code: "DATABASE_NOT_READY" });
    // Another password alone lets nobody in.
    const verifier = verifierFor(engine, branch.password);
    await runner.ask(branch.target, "setVerifier", { role, verifier });
    await expect(query("select 1")).rejects.toMatchObject({ code: "DATABASE_NOT_READY" });
    await runner.ask(branch.target, "createTenant", { database, role, verifier, connectionLimit: 7 });
    expect((await query("select 1")).given.rows).toEqual([[1]]);
  });

  test("keeps a tenant out again and again, and the log stays where it is for a reader that the server does not know", async () => {
    // What a copy has of it is told by its own node, seconds later; how far one of Postgres has come, its server says itself.
    if (isPostgres) return;
    const { database, role, password } = branch;
    const freeze = async () =>
      (await runner.ask(branch.target, "freeze", { role, slot: null, waitMs: 0 })).given.position;
    const letIn = () =>
      runner.ask(branch.target, "createTenant", {
        ...{ database, role, connectionLimit: 7 },
        verifier: verifierFor(engine, password),
      });
    const first = await freeze();
    expect(await freeze()).toBe(first);
    await letIn();
    expect((await query("select 1")).given.rows).toEqual([[1]]);
    expect(await freeze()).not.toBe(first);
    await expect(query("select 1")).rejects.toMatchObject({ code: "DATABASE_NOT_READY" });
    await letIn();
  });

  test("measures a branch", async () => {
    const { database, role } = branch;
    const filler = isPostgres
      ? "create table filler as select repeat(md5(n::text), 100) from generate_series(1, 2000) n"
      : "create table filler as select repeat(md5(1), 100000) as x union all select repeat(md5(2), 100000)";
    const before = (await runner.ask(branch.target, "usage", { database, role })).given.sizeBytes;
    await query(filler);
    const after = (await runner.ask(branch.target, "usage", { database, role })).given;
    expect(after.sizeBytes).toBeGreaterThan(before);
    expect(after.activeConnections).toBe(0);
  });

  test("runs nothing that a tenant named like something of the server's own", async () => {
    if (!isPostgres) return;
    await query(`create function public.pg_database_size(name) returns bigint language sql as 'select -1::bigint';
      create table public.pg_stat_activity (pid int, usename name, backend_type text)`);
    const { database, role } = branch;
    expect((await runner.ask(branch.target, "usage", { database, role })).given.sizeBytes).toBeGreaterThan(0);
  });

  test("one branch does not get into another's database", async () => {
    const other = await newBranch(runner, server);
    const tenant = { user: branch.role, database: other.database, password: branch.password };
    const into = runner.ask({ ...branch.target, tenant }, "query", {
      sql: "select 1",
      rollback: false,
      readOnly: false,
    });
    await expect(into).rejects.toMatchObject({ code: expect.stringMatching(/QUERY_ERROR|DATABASE_NOT_READY/) });
  });

  test("drops a branch, also twice", async () => {
    const { database, role } = branch;
    await runner.ask(branch.target, "dropTenant", { database, role });
    await runner.ask(branch.target, "dropTenant", { database, role });
    await expect(query("select 1")).rejects.toMatchObject({ code: "DATABASE_NOT_READY" });
    expect((await runner.ask(branch.target, "readVerifier", { role })).given.verifier).toBeNull();
  });
});
