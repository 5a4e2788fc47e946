import type { Clock } from "@svc/runtime/clock";
import { sleep } from "@svc/runtime/sleep";
import pg from "pg";
import { type Migration, ownMigrations, pendingMigrations, readMigrations } from "./migrations.ts";
import type { Db } from "./pool.ts";

/** Any fixed number; two control servers that start at once take turns on it. */
const advisoryLock = 7_215_331;
/** Another replica may stand still while it has the turn; whoever gives up here is started again. */
const turnTimeoutMs = 120_000;
/**
 * How long a step waits for what somebody else has locked. Whoever asks for the same table meanwhile, be it only to read,
 * waits behind the step.
 */
const lockTimeoutMs = 2_000;
/** Between tries of a step, while others get theirs. All tries of one take half as long as another replica waits. */
const retryWaitsMs: readonly number[] = [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000, 5_000, 5_000, 5_000];
/** `lock_not_available` and `deadlock_detected`: somebody else has what the step needs, and gives it back. */
const busyCodes: ReadonlySet<unknown> = new Set(["55P03", "40P01"]);

export interface MigrateOptions {
  /** Folder of the steps; this version's by default. */
  dir?: URL;
  /** Waits after a step found a lock taken; after as many it fails. */
  retryWaitsMs?: readonly number[];
}

/** What this version would still run, and what has run that it does not know: then a newer version is at work. */
export async function schemaState(db: Db): Promise<{ missing: string[]; unknown: string[] }> {
  const rows = await db.selectFrom("schema_migration").select("name").orderBy("name").execute();
  const ran = new Set(rows.map(({ name }) => name));
  const known = new Set((await readMigrations(ownMigrations)).map(({ name }) => name));
  return { missing: [...known].filter((name) => !ran.has(name)), unknown: [...ran].filter((name) => !known.has(name)) };
}

/**
 * Brings the database to the schema of this version and returns the names of the steps that ran. Each runs once, in its
 * own transaction, and gives way to whoever works with the tables that it changes.
 *
 * @throws {UnknownSchema} if the database has steps that this version does not know, before anything is changed
 * @throws {MigrationMismatch} if a step was edited since it ran, before anything is changed
 */
export async function migrate(clock: Clock, databaseUrl: string, options: MigrateOptions = {}): Promise<string[]> {
  const known = await readMigrations(options.dir ?? ownMigrations);
  const client = new pg.Client({ connectionString: databaseUrl, application_name: "svc-migrate" });
  await client.connect();
  try {
    await client.query(`set lock_timeout = ${turnTimeoutMs}`);
    await client.query("select pg_advisory_lock($1)", [advisoryLock]);
    await client.query(`set lock_timeout = ${lockTimeoutMs}`);
    await client.query(
      "create table if not exists schema_migration (name text primary key, hash text not null, at timestamptz not null default now())",
    );
    const { rows } = await client.query<{ name: string; hash: string }>(
      "select name, hash from schema_migration order by name",
    );
    const pending = pendingMigrations(known, rows);
    for (const step of pending) await runPatiently({ clock, client }, step, options.retryWaitsMs ?? retryWaitsMs);
    return pending.map(({ name }) => name);
  } finally {
    await client.end();
  }
}

async function runPatiently(
  { clock, client }: { clock: Clock; client: pg.Client },
  step: Migration,
  waitsMs: readonly number[],
): Promise<void> {
  const waits = waitsMs.values();
  for (;;) {
    try {
      return await runStep(client, step);
    } catch (error) {
      const wait = isBusy(error) ? waits.next().value : undefined;
      if (wait === undefined) throw new Error(`migration ${step.name} failed`, { cause: error });
      await sleep(clock, wait);
    }
  }
}

const isBusy = (error: unknown): boolean => error instanceof pg.DatabaseError && busyCodes.has(error.code);

async function runStep(client: pg.Client, { name, sql, hash }: Migration): Promise<void> {
  await client.query("begin");
  try {
    await client.query(sql);
    await client.query("insert into schema_migration (name, hash) values ($1, $2)", [name, hash]);
    await client.query("commit");
  } catch (error) {
    await client.query("rollback");
    throw error;
  }
}
