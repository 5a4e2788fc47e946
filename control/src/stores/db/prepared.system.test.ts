import { sql } from "kysely";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createDb, type Db } from "./pool.ts";
import { type TestDatabase, testDatabase } from "./testing.ts";

let database: TestDatabase;
/** One connection, so that each test knows which one it looks at. */
let db: Db;

beforeAll(async () => {
  database = await testDatabase();
  db = createDb({ url: database.url, maxConnections: 1 });
  await sql`create table thing (id int primary key, name text not null)`.execute(db);
  await sql`insert into thing values (1, 'one'), (2, 'two')`.execute(db);
});

afterAll(async () => {
  await db.destroy();
  await database[Symbol.asyncDispose]();
});

/** How often each statement that the connection keeps was run. */
async function kept(part: string): Promise<number[]> {
  const { rows } = await sql<{ statement: string; runs: number }>`
    select statement, (generic_plans + custom_plans)::int as runs from pg_prepared_statements`.execute(db);
  return rows.filter(({ statement }) => statement.includes(part)).map(({ runs }) => runs);
}

const things = (id: number) => sql<{ id: number }>`select * from thing where id = ${id}`.execute(db);

test("a read is parsed once, whatever it asks for", async () => {
  for (const id of [1, 2, 1]) expect((await things(id)).rows).toMatchObject([{ id }]);
  expect(await kept("from thing where")).toEqual([3]);
});

test("a read goes on after another version of control added a column", async () => {
  await things(1);
  await sql`alter table thing add column size int not null default 7`.execute(database.db);
  expect((await things(1)).rows).toEqual([{ id: 1, name: "one", size: 7 }]);
  expect((await things(2)).rows).toEqual([{ id: 2, name: "two", size: 7 }]);
});

test("a transaction's reads see such a change, too", async () => {
  const early = await db.transaction().execute(async (tx) => {
    const before = await sql`select * from thing where id = ${1}`.execute(tx);
    await sql`alter table thing add column colour text`.execute(tx);
    const after = await sql`select * from thing where id = ${1}`.execute(tx);
    return [before.rows, after.rows];
  });
  expect(early).toEqual([[expect.not.objectContaining({ colour: null })], [expect.objectContaining({ colour: null })]]);
});

test("writes are not kept, and errors of a read are its own", async () => {
  await sql`update thing set name = ${"uno"} where id = ${1}`.execute(db);
  expect(await kept("update thing")).toEqual([]);
  await expect(sql`select 1 / ${0}::int as x`.execute(db)).rejects.toMatchObject({ code: "22012" });
  await expect(sql`select 1 / ${0}::int as x`.execute(db)).rejects.toMatchObject({ code: "22012" });
  expect((await sql`select 1 / ${1}::int as x`.execute(db)).rows).toEqual([{ x: 1 }]);
});

test("a connection keeps no more than 200 statements, and answers the others all the same", async () => {
  for (let at = 0; at < 230; at += 1) {
    const { rows } = await sql`select ${sql.lit(at)}::int as at, ${"x"}::text as text`.execute(db);
    expect(rows).toEqual([{ at, text: "x" }]);
  }
  expect((await kept("select")).length).toBeLessThanOrEqual(200);
});
