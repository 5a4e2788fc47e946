import { copySlot, keeperUser } from "@svc/proto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startMariadb } from "../testing/mariadb.ts";
import { startPostgres } from "../testing/postgres.ts";
import { newBranch, type TestBranch, type TestServer, testRunner, verifierFor } from "../testing/server.ts";
import { newPassword } from "./password.ts";
import type { Asked } from "./requests.ts";
import type { SqlRunner } from "./runner.ts";

describe.each([
  { engine: "postgres", start: startPostgres },
  { engine: "mariadb", start: startMariadb },
] as const)("who keeps copies of a branch of $engine", ({ engine, start }) => {
  let server: TestServer;
  let runner: SqlRunner;
  let branch: TestBranch;
  const password = newPassword();
  beforeAll(async () => {
    server = await start();
    runner = testRunner();
    branch = await newBranch(runner, server);
  });
  afterAll(async () => {
    await runner?.[Symbol.asyncDispose]();
    await server?.[Symbol.asyncDispose]();
  });

  const query = (sql: string) =>
    runner.ask(branch.target, "query", { sql, rollback: false, readOnly: false }).then(({ given }) => given.rows);
  const asKeeper = (sql: string, secret = password) =>
    runner
      .ask(
        { ...branch.target, tenant: { user: keeperUser, password: secret, database: server.admin.database } },
        ...(["query", { sql, rollback: false, readOnly: false }] as const),
      )
      .then(({ given }) => given.rows);
  const bring = (secret: string) => runner.ask(branch.target, "bringKeeper", { verifier: verifierFor(engine, secret) });
  const look = async (asked: Asked<"tables"> = { isCounted: true, budgetMs: 5_000 }) =>
    (await runner.ask(branch.target, "tables", asked)).given;

  test("is let in by its password, is made once, and cannot change anything", async () => {
    await bring(password);
    await bring(password);
    expect(await asKeeper("select 1")).toEqual([[1]]);
    const verifier = (await runner.ask(branch.target, "readVerifier", { role: keeperUser })).given.verifier;
    expect(verifier).toBe(verifierFor(engine, password));
    const bad = engine === "postgres" ? "create table public.mine (id int)" : "create table mysql.mine (id int)";
    await expect(asKeeper(bad)).rejects.toMatchObject({ code: "QUERY_ERROR" });
  });

  test("is not written down again where it is known, so that a server that takes nothing is none the worse", async () => {
    if (engine !== "postgres") return;
    const known = async () => {
      const sql = `select xmin::text from pg_authid where rolname = '${keeperUser}' union all select xmin::text from pg_database where datname = 'postgres'`;
      const asked = { sql, rollback: false, readOnly: true };
      return (await runner.ask({ ...branch.target, tenant: server.admin }, "query", asked)).given.rows;
    };
    const before = await known();
    await bring(password);
    expect(await known()).toEqual(before);
  });

  test("is not let in by the password before", async () => {
    const another = newPassword();
    await bring(another);
    await expect(asKeeper("select 1")).rejects.toMatchObject({ code: "DATABASE_NOT_READY" });
    await bring(password);
    await expect(asKeeper("select 1", another)).rejects.toMatchObject({ code: "DATABASE_NOT_READY" });
  });

  test("a look at the tables counts rows, and tells one that was written to from one that was not", async () => {
    await query("create table kept (id int primary key)");
    await query("create table written (id int primary key)");
    await query("insert into kept values (1), (2)");
    const counters = async () => {
      const { tables } = await look({ isCounted: false, budgetMs: 0 });
      return Object.fromEntries(tables.map(({ name, counter }) => [name, counter]));
    };
    // What was written a moment ago is counted some time later.
    let before = await counters();
    await expect
      .poll(
        async () => {
          const last = before;
          before = await counters();
          return Object.values(before).every((counter) => counter !== null) && before["kept"] === last["kept"];
        },
        { timeout: 20_000, interval: 500 },
      )
      .toBe(true);
    const { at, tables } = await look();
    expect(new Date(at).toISOString()).toContain("T");
    expect(tables.map(({ name, rows }) => [name, rows]).sort()).toEqual([
      ["kept", 2],
      ["written", 0],
    ]);
    await query("insert into written values (1)");
    await expect.poll(async () => (await counters())["written"], { timeout: 20_000 }).not.toBe(before["written"]);
  });

  test("tables that may not show all of their rows are not counted", async () => {
    if (engine !== "postgres") return;
    await query("create table hidden (id int); alter table hidden enable row level security");
    await query("alter table hidden force row level security");
    const { tables } = await look();
    expect(tables.find(({ name }) => name === "hidden")).toMatchObject({ rows: null });
  });

  test("the log is kept for copies that are there, and for no others", async () => {
    const [kept, gone] = [crypto.randomUUID(), crypto.randomUUID()].map(copySlot);
    const release = async () =>
      (await runner.ask(branch.target, "releaseSlots", { slots: [gone ?? ""] })).given.released;
    if (engine === "mariadb") return void expect(await release()).toBe(0);
    const make = (slot: string | undefined) => asAdmin(`select pg_create_physical_replication_slot('${slot}', true)`);
    const asAdmin = (sql: string) =>
      runner.ask({ ...branch.target, tenant: server.admin }, "query", { sql, rollback: false, readOnly: false });
    for (const slot of [kept, gone, "somebody_elses"]) await make(slot);
    expect(await release()).toBe(1);
    expect(await release()).toBe(0);
    const left = (await asAdmin("select slot_name::text from pg_replication_slots order by 1")).given.rows;
    expect(left).toEqual([["somebody_elses"], [kept]]);
  });
});
