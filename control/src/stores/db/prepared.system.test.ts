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

test("a read that comes again is kept from then on, whatever it asks for", async () => {
  for (const id of [1, 2, 1]) expect((await things(id)).rows).toMatchObject([{ id }]);
  expect(await kept("from thing where")).toEqual([2]);
});

test("a read goes on after another version of control added a column", async () => {
  for (const id of [1, 2]) await things(id);
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

test("in a transaction what names its columns is kept, writes as well, and nothing else", async () => {
  const rename = (tx: Db, id: number) =>
    sql<{ name: string }>`update thing set name = ${"uno"} where id = ${id} returning name`.execute(tx);
  const first = (tx: Db) => sql`insert into thing (id, name) values (${3}, ${"three"})`.execute(tx);
  const all = (tx: Db) => sql`select thing.*, 1 as one from thing where id = ${1}`.execute(tx);
  for (let time = 0; time < 3; time += 1)
    await db.transaction().execute(async (tx) => {
      expect((await rename(tx, 1)).rows).toEqual([{ name: "uno" }]);
      await all(tx);
      await first(tx);
      await sql`delete from thing where id = 3`.execute(tx);
    });
  expect(await kept("update thing set name")).toEqual([2]);
  expect(await kept("insert into thing")).toEqual([2]);
  expect(await kept("1 as one")).toEqual([]);
});

test("a transaction that fails forgets nothing of what is kept, and errors of a statement are its own", async () => {
  const add = (tx: Db) => sql`insert into thing (id, name) values (${1}, ${"again"})`.execute(tx);
  for (let time = 0; time < 3; time += 1)
    await expect(db.transaction().execute(add)).rejects.toMatchObject({ code: "23505" });
  const divide = (by: number) => sql`select 1 / ${by}::int as x`.execute(db);
  for (let time = 0; time < 3; time += 1) await expect(divide(0)).rejects.toMatchObject({ code: "22012" });
  expect((await divide(1)).rows).toEqual([{ x: 1 }]);
  expect((await things(1)).rows).toMatchObject([{ id: 1, name: "uno" }]);
});

test("a connection keeps no more than 300 statements, and answers the others all the same", async () => {
  for (let ask = 0; ask < 660; ask += 1) {
    const at = ask >> 1;
    const { rows } = await sql`select ${sql.lit(at)}::int as at, ${"x"}::text as text`.execute(db);
    expect(rows).toEqual([{ at, text: "x" }]);
  }
  expect((await kept("select")).length).toBeLessThanOrEqual(300);
});
