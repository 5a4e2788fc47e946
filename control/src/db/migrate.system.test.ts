import { randomUUID } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import pg from "pg";
import { expect, test } from "vitest";
import { testDatabase } from "./testing.ts";

const migrationsDir = new URL("./migrations/", import.meta.url);
const readMigration = (name: string) => readFile(new URL(name, migrationsDir), "utf8");

/** A database as it was before the migration of this name. */
async function databaseBefore(url: string, name: string): Promise<pg.Client> {
  const server = new pg.Client({ connectionString: url });
  await server.connect();
  await server.query("create database earlier");
  await server.end();
  const earlier = new URL(url);
  earlier.pathname = "/earlier";
  const client = new pg.Client({ connectionString: earlier.href });
  await client.connect();
  const names = (await readdir(migrationsDir)).filter((each) => each.endsWith(".sql") && each < name).sort();
  for (const each of names) await client.query(await readMigration(each));
  return client;
}

test("what the audit log tells more is not looked up for the lines that it has, which may be very many", async () => {
  await using database = await testDatabase();
  const client = await databaseBefore(database.url, "0014-administration.sql");
  try {
    await client.query(
      "insert into audit (user_id, token_id, action) select $1, $2, 'test.done' from generate_series(1, 3)",
      [randomUUID(), randomUUID()],
    );
    const lines = async () => (await client.query("select id, ctid, xmin from audit order by id")).rows;
    const before = await lines();
    await client.query(await readMigration("0014-administration.sql"));
    expect(await lines()).toEqual(before);
    const { rows } = await client.query("select user_email, credential, request_id from audit");
    expect(rows).toEqual(Array(3).fill({ user_email: null, credential: null, request_id: null }));
  } finally {
    await client.end();
  }
});
