import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { sql } from "kysely";
import pg from "pg";
import type { Db } from "./pool.ts";

const migrationsDir = new URL("./migrations/", import.meta.url);
/** Any fixed number; two control servers that start at once take turns on it. */
const advisoryLock = 7_215_331;
const lockTimeoutMs = 120_000;

/** A migration that already ran has another text now, or one is missing. */
export class MigrationMismatch extends Error {
  override readonly name = "MigrationMismatch";
}

async function readMigrations(): Promise<{ name: string; sql: string; hash: string }[]> {
  const names = (await readdir(migrationsDir)).filter((name) => /^\d{4}-[a-z0-9-]+\.sql$/.test(name)).sort();
  return Promise.all(
    names.map(async (name) => {
      const sql = await readFile(new URL(name, migrationsDir), "utf8");
      return { name, sql, hash: createHash("sha256").update(sql).digest("hex") };
    }),
  );
}

/** What this version would still run, and what has run that it does not know: then a newer version is at work. */
export async function schemaState(db: Db): Promise<{ missing: string[]; unknown: string[] }> {
  const { rows } = await sql<{ name: string }>`select name from schema_migration order by name`.execute(db);
  const ran = new Set(rows.map(({ name }) => name));
  const known = new Set((await readMigrations()).map(({ name }) => name));
  return { missing: [...known].filter((name) => !ran.has(name)), unknown: [...ran].filter((name) => !known.has(name)) };
}

/**
 * Brings the database to the newest schema and returns the names of the migrations that ran.
 * Each file runs once, in its own transaction; files that ran before are never edited.
 */
export async function migrate(databaseUrl: string): Promise<string[]> {
  const client = new pg.Client({ connectionString: databaseUrl, application_name: "svc-migrate" });
  await client.connect();
  try {
    // Another replica may stand still while it holds a lock; whoever gives up here is started again.
    await client.query(`set lock_timeout = ${lockTimeoutMs}`);
    await client.query("select pg_advisory_lock($1)", [advisoryLock]);
    await client.query(
      "create table if not exists schema_migration (name text primary key, hash text not null, at timestamptz not null default now())",
    );
    const { rows } = await client.query<{ name: string; hash: string }>("select name, hash from schema_migration");
    const done = new Map(rows.map((row) => [row.name, row.hash]));
    const ran: string[] = [];
    for (const { name, sql, hash } of await readMigrations()) {
      const previous = done.get(name);
      if (previous === hash) continue;
      if (previous !== undefined) throw new MigrationMismatch(`migration ${name} was changed after it had run`);
      await client.query("begin");
      try {
        await client.query(sql);
        await client.query("insert into schema_migration (name, hash) values ($1, $2)", [name, hash]);
        await client.query("commit");
      } catch (error) {
        await client.query("rollback");
        throw new Error(`migration ${name} failed`, { cause: error });
      }
      ran.push(name);
    }
    return ran;
  } finally {
    await client.end();
  }
}
