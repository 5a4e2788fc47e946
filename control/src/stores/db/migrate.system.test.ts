import { cp, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { systemClock } from "@svc/runtime/system";
import { sql } from "kysely";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { migrate, schemaState } from "./migrate.ts";
import { MigrationMismatch, ownMigrations, UnknownSchema } from "./migrations.ts";
import type { Db } from "./pool.ts";
import { lockWaits, type TestDatabase, testDatabase } from "./testing.ts";

/** Keeps the server up from test to test. */
let first: TestDatabase;
let database: TestDatabase;
beforeAll(async () => {
  first = await testDatabase();
});
afterAll(() => first?.[Symbol.asyncDispose]());
beforeEach(async () => {
  database = await testDatabase();
});
afterEach(() => database?.[Symbol.asyncDispose]());

const own = (await readdir(ownMigrations)).toSorted();
const wider = `${String(own.length + 1).padStart(4, "0")}-expand-width.sql`;

/** The steps of this version, and one of the next. */
async function nextVersion(): Promise<AsyncDisposable & { dir: URL }> {
  const dir = await mkdtemp(join(tmpdir(), "svc-migrations-"));
  await cp(ownMigrations, dir, { recursive: true });
  await writeFile(join(dir, wider), "alter table plan add column width integer;");
  return {
    dir: pathToFileURL(`${dir}/`),
    [Symbol.asyncDispose]: () => rm(dir, { recursive: true }),
  };
}

const names = async (db: Db) =>
  (await db.selectFrom("schema_migration").select("name").orderBy("name").execute()).map(({ name }) => name);

/** Somebody who has looked at plans, as in a long report, and looks at other things until `over`. */
function longReader(db: Db) {
  const { promise: over, resolve: end } = Promise.withResolvers<void>();
  const { promise: reading, resolve: began } = Promise.withResolvers<void>();
  const ended = db.transaction().execute(async (tx) => {
    await tx.selectFrom("plan").select("id").execute();
    began();
    await over;
  });
  return {
    reading,
    end() {
      end();
      return ended;
    },
    [Symbol.dispose]: end,
  };
}

test("a step runs once", async () => {
  await using next = await nextVersion();
  expect(await migrate(systemClock, database.url)).toEqual([]);
  expect(await migrate(systemClock, database.url, next)).toEqual([wider]);
  expect(await migrate(systemClock, database.url, next)).toEqual([]);
});

test("control goes on with a schema that a newer version has expanded, and does not start on it", async () => {
  await using next = await nextVersion();
  await migrate(systemClock, database.url, next);
  expect(await database.db.selectFrom("plan").select("slug").execute()).toEqual([]);
  expect(await schemaState(database.db)).toEqual({ missing: [], unknown: [wider] });
  await expect(migrate(systemClock, database.url)).rejects.toThrow(UnknownSchema);
});

test("a database of before the first release is refused as it is", async () => {
  await sql`drop schema public cascade`.execute(database.db);
  await sql`create schema public`.execute(database.db);
  await sql`create table schema_migration (name text primary key, hash text not null)`.execute(database.db);
  await sql`insert into schema_migration values ('0001-auth.sql', 'x'), ('0002-platform.sql', 'x')`.execute(
    database.db,
  );
  await expect(migrate(systemClock, database.url)).rejects.toThrow(
    /not know: 0001-auth\.sql, 0002-platform\.sql\. .*restore/,
  );
  expect(await names(database.db)).toEqual(["0001-auth.sql", "0002-platform.sql"]);
});

test("a step that was edited after it had run is refused before any other one runs", async () => {
  await using next = await nextVersion();
  await database.db.updateTable("schema_migration").set({ hash: "x" }).execute();
  await expect(migrate(systemClock, database.url, next)).rejects.toThrow(MigrationMismatch);
  expect(await names(database.db)).toEqual(own);
});

test("a step that waits for a long query lets others read, and runs once the query is over", async () => {
  await using next = await nextVersion();
  using long = longReader(database.db);
  await long.reading;
  const migrated = migrate(systemClock, database.url, { ...next, retryWaitsMs: Array(1_000).fill(100) });
  await expect.poll(() => lockWaits(database.db)).toBe(1);

  // Behind the step that waits. The long query goes on until this one has its answer.
  expect(await database.db.selectFrom("plan").select("id").execute()).toEqual([]);
  expect(await names(database.db)).toEqual(own);

  await long.end();
  expect(await migrated).toEqual([wider]);
  expect(await names(database.db)).toEqual([...own, wider]);
});

test("traffic of before is rolled up while projects are written", async () => {
  const { db, url } = database;
  const dir = await mkdtemp(join(tmpdir(), "svc-migrations-"));
  const before = own.filter((name) => name < "0017");
  for (const name of before) await cp(new URL(name, ownMigrations), join(dir, name));
  await sql`drop schema public, auth cascade`.execute(db);
  await sql`create schema public`.execute(db);
  expect(await migrate(systemClock, url, { dir: pathToFileURL(`${dir}/`) })).toEqual(before);
  await rm(dir, { recursive: true });
  await sql`with owner as (
      insert into auth."user" (name, email, "emailVerified", "updatedAt") values ('U', 'u@example.test', true, now())
      returning id
    ), added as (
      insert into project (owner_id, name, slug, type) select id, 'Shop', 'shop', 'static' from owner returning id
    )
    insert into traffic_hour (project_id, channel, hour, requests)
    select id, 'production', hour::timestamptz, 3 from added, unnest(array['2030-01-01T22:00Z', '2030-01-01T23:00Z',
      '2030-01-02T00:00Z']) as hour`.execute(db);

  const { promise: over, resolve: end } = Promise.withResolvers<void>();
  const { promise: counting, resolve: began } = Promise.withResolvers<void>();
  const counted = db.transaction().execute(async (tx) => {
    await sql`update traffic_hour set requests = requests + 1 where hour = '2030-01-02T00:00Z'`.execute(tx);
    began();
    await over;
  });
  await counting;
  const migrated = migrate(systemClock, url, { retryWaitsMs: Array(1_000).fill(100) });
  await expect.poll(() => lockWaits(db), { timeout: 20_000 }).toBe(1);
  await db.transaction().execute(async (tx) => {
    await sql`set local lock_timeout = '50ms'`.execute(tx);
    await sql`update project set name = 'Other'`.execute(tx);
  });
  end();
  await counted;
  expect(await migrated).toEqual(own.filter((name) => !before.includes(name)));
  const days = () => sql`select day::text, requests::int from traffic_day order by 1`.execute(db);
  expect((await days()).rows).toEqual([
    { day: "2030-01-01", requests: 6 },
    { day: "2030-01-02", requests: 4 },
  ]);
  await sql`delete from project`.execute(db);
  expect((await days()).rows).toEqual([]);
});

test("a step does not wait for ever, and leaves nothing behind", async () => {
  await using next = await nextVersion();
  using long = longReader(database.db);
  await long.reading;
  await expect(migrate(systemClock, database.url, { ...next, retryWaitsMs: [10] })).rejects.toThrow(
    `migration ${wider} failed`,
  );
  expect(await names(database.db)).toEqual(own);
  await long.end();
  expect(await migrate(systemClock, database.url, next)).toEqual([wider]);
});
