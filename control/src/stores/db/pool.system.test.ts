import { sql } from "kysely";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type TestDatabase, testDatabase } from "./testing.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await testDatabase();
});
afterAll(async () => {
  await database[Symbol.asyncDispose]();
});

test("a connection that the server ends between two statements of a transaction fails the transaction and no more", async () => {
  const { db } = database;
  const work = db.transaction().execute(async (tx) => {
    const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(tx);
    const [{ pid } = { pid: 0 }] = rows;
    await sql`select pg_terminate_backend(${pid})`.execute(db);
    // Whoever holds it hears of it while no statement is under way: gone for the server, its last words are here.
    const isThere = async () =>
      (await sql`select from pg_stat_activity where pid = ${pid}`.execute(db)).rows.length > 0;
    await expect.poll(isThere).toBe(false);
    await sql`select 1`.execute(tx);
  });
  await expect(work).rejects.toThrow(/terminat|not queryable/i);
  expect((await sql<{ one: number }>`select 1 as one`.execute(db)).rows).toEqual([{ one: 1 }]);
});
