import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { keepHouse } from "./housekeeping.ts";
import { createLog } from "./log.ts";
import { createDb, type Db } from "./stores/db/pool.ts";
import { type TestDatabase, testDatabase } from "./stores/db/testing.ts";

const rules = { previewIdleDays: 0 };
const quiet = createLog("silent");

let database: TestDatabase;
beforeAll(async () => {
  database = await testDatabase();
});
afterAll(() => database?.[Symbol.asyncDispose]());
beforeEach(() => database.db.deleteFrom("work_item").execute());

const anItem = (kind: string, state: "done" | "failed", finishedDaysAgo = 0) =>
  database.db
    .insertInto("work_item")
    .values({
      ...{ kind, key: `${kind}/${randomUUID()}`, payload: "{}", state, attempt: 20, error: "etcd does not answer" },
      finished_at: sql<Date>`now() - ${finishedDaysAgo} * interval '1 day'`,
    })
    .execute();
const items = () =>
  database.db.selectFrom("work_item").select(["kind", "state", "attempt", "error"]).orderBy("kind").execute();

test("what was promised and given up is taken up again, however long ago; a deployment that failed stays failed", async () => {
  for (const kind of ["apply-limits", "quota-notice", "remove", "rename", "retire", "suspension", "teardown"])
    await anItem(kind, "failed", 8);
  await anItem("deploy", "failed");
  await anItem("retire", "done");
  await keepHouse(database.db, quiet, rules);
  const resumed = { state: "queued", attempt: 0, error: null };
  expect(await items()).toEqual([
    { kind: "apply-limits", ...resumed },
    { kind: "deploy", state: "failed", attempt: 20, error: "etcd does not answer" },
    { kind: "quota-notice", ...resumed },
    { kind: "remove", ...resumed },
    { kind: "rename", ...resumed },
    expect.objectContaining({ kind: "retire" }),
    expect.objectContaining({ kind: "retire" }),
    { kind: "suspension", ...resumed },
    { kind: "teardown", ...resumed },
  ]);
  expect((await items()).filter(({ kind }) => kind === "retire").map(({ state }) => state)).toContain("queued");
});

test("a part that fails keeps none of the others from its turn, and says so", async () => {
  await anItem("deploy", "done", 8);
  const lines: { part?: string }[] = [];
  const log = createLog("warn", "control", { write: (line) => void lines.push(JSON.parse(line)) });
  const impatient = createDb({ url: database.url, lockTimeoutMs: 100 });
  try {
    await database.db.transaction().execute(async (tx) => {
      await sql`lock table auth."session", accepted_deploy in access exclusive mode`.execute(tx);
      await keepHouse(impatient, log, rules);
    });
  } finally {
    await impatient.destroy();
  }
  expect(await items()).toEqual([]);
  expect(lines.map(({ part }) => part)).toEqual(["expired", "acceptedDeploys"]);
});

test("old samples go without a look at all that are kept", async () => {
  const { db } = database;
  await sql`insert into resource_sample
    select gen_random_uuid(), gen_random_uuid(), now() - interval '27 hours' + n * interval '0.9 s', 1, 1, 1
    from generate_series(1, 100000) as n`.execute(db);
  await sql`analyze resource_sample`.execute(db);
  const { rows } = await sql<{ old: number }>`
    select count(*)::int as old from resource_sample where at < now() - interval '25 hours'`.execute(db);
  const count = await countSamples();
  const read = await db.transaction().execute(async (tx) => {
    const before = await readThrough(tx);
    await keepHouse(tx, quiet, rules);
    return (await readThrough(tx)) - before;
  });
  expect(rows[0]?.old).toBeGreaterThan(1_000);
  expect(count - (await countSamples())).toBeGreaterThanOrEqual(rows[0]?.old ?? 0);
  expect(read).toBe(0);
});

test("what visitors asked for is kept for 400 days, and goes piece by piece", async () => {
  const { db } = database;
  const owner = randomUUID();
  const project = randomUUID();
  await sql`insert into auth."user" (id, name, email, "emailVerified", "updatedAt")
    values (${owner}, 'U', ${`${owner}@example.test`}, true, now())`.execute(db);
  await sql`insert into project (id, owner_id, name, slug, type)
    values (${project}, ${owner}, 'Shop', ${`s${project.slice(0, 8)}`}, 'static')`.execute(db);
  await sql`insert into traffic_hour (project_id, channel, hour, requests)
    select ${project}::uuid, 'production', date_trunc('hour', now()) - (days * 24 + n) * interval '1 hour', 1
    from (values (390, 24), (400, 6000)) as aged(days, count), generate_series(1, count) as n`.execute(db);
  const left = async () =>
    (await sql<{ count: number }>`select count(*) as count from traffic_hour`.execute(db)).rows[0]?.count;
  await keepHouse(db, quiet, rules);
  expect(await left()).toBe(24);
  await keepHouse(db, quiet, rules);
  expect(await left()).toBe(24);
});

/** Samples that this connection has read one after another, without an index. */
async function readThrough(tx: Db): Promise<number> {
  const { rows } = await sql<{ read: number }>`
    select seq_tup_read as read from pg_stat_xact_user_tables where relname = 'resource_sample'`.execute(tx);
  return rows[0]?.read ?? 0;
}

const countSamples = async (): Promise<number> =>
  (await sql<{ count: number }>`select count(*) as count from resource_sample`.execute(database.db)).rows[0]?.count ??
  0;
