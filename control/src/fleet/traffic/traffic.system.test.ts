import { randomUUID } from "node:crypto";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { TrafficBatchSchema, type TrafficCountSchema } from "@svc/proto/edge";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { getMonthTraffic } from "../../identity/plans/usage.ts";
import { createLog } from "../../log.ts";
import type { Link } from "../daemons/start.ts";
import { aDaemon, aRouter, aWorld, type DaemonFiles, until, type World } from "../daemons/testing.ts";
import { applyTraffic } from "./apply.ts";
import { createTrafficReceiver } from "./receiver.ts";
import { rowsMax, type TrafficRow } from "./rules.ts";

let world: World;
let link: Link;
let edge: DaemonFiles;
beforeAll(async () => {
  world = await aWorld();
  link = await world.startLink();
  edge = await aDaemon(world, link, "edge");
});
afterAll(async () => {
  await link[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
});

const now = new Date();
const hourMs = 3_600_000;
const hour = new Date(Math.floor(now.getTime() / hourMs) * hourMs);
let owner: string;
let project: string;
let series: string;
beforeEach(async () => {
  series = randomUUID();
  owner = await aUser();
  project = await aProject();
});

async function aUser(): Promise<string> {
  const { rows } = await sql<{ id: string }>`
    insert into auth."user" (name, email, "emailVerified", "updatedAt")
    values ('U', ${`${randomUUID()}@example.test`}, true, now()) returning id`.execute(world.database.db);
  return rows[0]?.id ?? "";
}

async function aProject(): Promise<string> {
  const { id } = await world.database.db
    .insertInto("project")
    .values({ owner_id: owner, name: "Shop", slug: `s${randomUUID().slice(0, 12)}`, type: "static" })
    .returning("id")
    .executeTakeFirstOrThrow();
  return id;
}

const aRow = (fields: Partial<TrafficRow> = {}): TrafficRow => ({
  ...{ projectId: project, channel: "production", hour },
  ...{ requests: 10, bytesIn: 1, bytesOut: 100, s2xx: 7, s3xx: 1, s4xx: 1, s5xx: 1, metered: true },
  ...fields,
});
const apply = (number: number, rows: TrafficRow[], edgeId = edge.id) =>
  applyTraffic(world.database.db, { edgeId, series, number, rows });
const hours = (id = project) =>
  world.database.db
    .selectFrom("traffic_hour")
    .select(["channel", "hour", "requests", "bytes_out", "s2xx", "s5xx"])
    .where("project_id", "=", id)
    .orderBy("channel")
    .orderBy("hour")
    .execute();
const month = () => getMonthTraffic(world.database.db, owner, now);

test("batches add to the project's hours and to its owner's month", async () => {
  const other = await aProject();
  const before = new Date(hour.getTime() - hourMs);
  await apply(1, [aRow(), aRow({ channel: "dev" }), aRow({ projectId: other })]);
  await apply(4, [aRow(), aRow({ hour: before, requests: 1 })]);
  expect(await hours()).toEqual([
    { channel: "dev", hour, requests: 10, bytes_out: 100, s2xx: 7, s5xx: 1 },
    { channel: "production", hour: before, requests: 1, bytes_out: 100, s2xx: 7, s5xx: 1 },
    { channel: "production", hour, requests: 20, bytes_out: 200, s2xx: 14, s5xx: 2 },
  ]);
  expect(await hours(other)).toHaveLength(1);
  // The hour before may be of the month before.
  const all = await sql<{ sum: number }>`
    select sum(requests)::bigint as sum from traffic_month where user_id = ${owner}`.execute(world.database.db);
  expect(all.rows).toEqual([{ sum: 41 }]);
});

test("what was counted is not counted again: not later, not under an older number, and not by two replicas at once", async () => {
  const outcomes = await Promise.all(Array.from({ length: 8 }, () => apply(7, [aRow()])));
  expect(outcomes.filter((counted) => counted)).toHaveLength(1);
  expect(await apply(7, [aRow()])).toBe(false);
  expect(await apply(6, [aRow()])).toBe(false);
  expect(await month()).toEqual({ requests: 10, bytesIn: 1, bytesOut: 100 });
  // Another edge, and this one after it lost its disk, have numbers of their own.
  const second = await aDaemon(world, link, "edge");
  expect(await apply(1, [aRow()], second.id)).toBe(true);
  series = randomUUID();
  expect(await apply(1, [aRow()])).toBe(true);
  expect((await month()).requests).toBe(30);
});

test("a batch that fails midway leaves nothing, its number included", async () => {
  const broken = aRow({ requests: 2 ** 70 });
  await expect(apply(1, [aRow(), broken])).rejects.toThrow();
  expect(await hours()).toEqual([]);
  expect(await apply(1, [aRow()])).toBe(true);
});

test("what was answered while the project was suspended is in its hours and not in its owner's month", async () => {
  await apply(1, [aRow(), aRow({ requests: 5, metered: false })]);
  expect((await hours()).map(({ requests }) => requests)).toEqual([15]);
  expect(await month()).toEqual({ requests: 10, bytesIn: 1, bytesOut: 100 });
  project = await aProject();
  await apply(2, [aRow({ metered: false })]);
  expect(await hours()).toHaveLength(1);
  expect((await month()).requests).toBe(10);
});

test("counts grow up to a number that can still be read, and no further", async () => {
  const most = Number.MAX_SAFE_INTEGER;
  const huge = { requests: most, bytesIn: most, bytesOut: most, s2xx: most, s5xx: most };
  for (let number = 1; number <= 3; number += 1) await apply(number, [aRow(huge), aRow({ ...huge, channel: "dev" })]);
  expect(await hours()).toMatchObject(
    ["dev", "production"].map(() => ({ requests: most, bytes_out: most, s5xx: most })),
  );
  expect(await month()).toEqual({ requests: most, bytesIn: most, bytesOut: most });
  // What an older version let through is brought down, too.
  await sql`update traffic_month set bytes_in = 9223372036854775807 where user_id = ${owner}`.execute(
    world.database.db,
  );
  expect((await month()).bytesIn).toBe(most);
  expect(await apply(4, [aRow()])).toBe(true);
  expect(await month()).toEqual({ requests: most, bytesIn: most, bytesOut: most });
});

test("a project that goes takes its hours along, and its owner's month stays", async () => {
  await apply(1, [aRow()]);
  await world.database.db.updateTable("project").set({ deleting_at: now }).where("id", "=", project).execute();
  await apply(2, [aRow()]);
  expect((await month()).requests).toBe(20);
  await world.database.db.deleteFrom("project").where("id", "=", project).execute();
  const left = await aProject();
  await apply(3, [aRow(), aRow({ projectId: left })]);
  expect(await hours()).toEqual([]);
  expect((await month()).requests).toBe(30);
});

test("batches whose hours began in turn wait for one another, and not in a circle", async () => {
  const before = new Date(hour.getTime() - hourMs);
  const aCount = (projectId: string, at: Date) => aRow({ projectId, hour: at, metered: false });
  const [known, knownBefore, fresh, freshBefore] = [
    await aProject(),
    await aProject(),
    await aProject(),
    await aProject(),
  ];
  const second = await aDaemon(world, link, "edge");
  await apply(1, [aCount(known, hour), aCount(knownBefore, before)]);
  const { db } = world.database;
  const waiting = async (many: number) => {
    const { rows } = await sql<{ many: number }>`select count(*)::int as many from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'`.execute(db);
    return (rows[0]?.many ?? 0) >= many;
  };
  const counting: Promise<boolean>[] = [];
  await db.transaction().execute(async (tx) => {
    // Keeps the first batch between the hours that it found and those that it begins.
    await sql`insert into traffic_day (project_id, channel, day)
      values (${freshBefore}, 'production', (${before}::timestamptz at time zone 'UTC')::date)`.execute(tx);
    counting.push(apply(2, [aCount(known, hour), aCount(freshBefore, before)]));
    await until("the first batch to wait", () => waiting(1));
    counting.push(apply(1, [aCount(knownBefore, before), aCount(fresh, hour)], second.id));
    await until("the second batch to wait", () => waiting(2));
  });
  expect(await Promise.all(counting)).toEqual([true, true]);
});

test("the largest batch is counted within the time of a statement, whether its hours are known or not", async () => {
  const projects = await Promise.all(Array.from({ length: 10 }, aProject));
  const rows = Array.from({ length: rowsMax }, (_, n) => {
    const ago = Math.floor(n / projects.length);
    return aRow({ projectId: projects[n % projects.length] ?? "", hour: new Date(hour.getTime() - ago * hourMs) });
  });
  // The first also has the database keep a plan for hours that are known while there are none.
  for (const number of [1, 2, 3]) expect(await apply(number, rows)).toBe(true);
  const { rows: sums } =
    await sql`select sum(requests)::int as requests, sum(bytes_out)::int as bytes_out, sum(s2xx)::int as s2xx
    from traffic_day where project_id = any(${projects}::uuid[])`.execute(world.database.db);
  expect(sums).toEqual([{ requests: 30 * rowsMax, bytes_out: 300 * rowsMax, s2xx: 21 * rowsMax }]);
});

test("many edges at once, while projects go, end neither in a deadlock nor in a wrong sum", async () => {
  const projects = await Promise.all(Array.from({ length: 12 }, aProject));
  const edges = await Promise.all(Array.from({ length: 4 }, () => aDaemon(world, link, "edge")));
  const rows = projects.map((projectId) => aRow({ projectId, requests: 1 }));
  const batches = edges.map(async ({ id }, n) => {
    for (let number = 1; number <= 10; number += 1) await apply(number, n % 2 === 0 ? rows : rows.toReversed(), id);
  });
  const doomed = projects.slice(0, 4);
  const deletions = doomed.map((id) => world.database.db.deleteFrom("project").where("id", "=", id).execute());
  await Promise.all([...batches, ...deletions]);
  for (const id of projects.slice(4)) expect((await hours(id)).map(({ requests }) => requests)).toEqual([40]);
});

test("a batch that the database will never take is acknowledged, dropped and named, and the next one counts", async () => {
  const { db } = world.database;
  const cursed = await aProject();
  await sql`alter table traffic_hour add constraint cursed check (project_id <> ${sql.lit(cursed)} or 1 / s4xx > 0)`.execute(
    db,
  );
  const warnings: Record<string, unknown>[] = [];
  const log = createLog("warn", "control", { write: (line) => void warnings.push(JSON.parse(line)) });
  const stop = new AbortController();
  const acknowledged: bigint[] = [];
  const receiver = createTrafficReceiver({
    clock: { ...systemClock, now: () => now },
    random: systemRandom,
    ...{ edgeId: edge.id, log, signal: stop.signal },
    count: (input) => applyTraffic(db, input),
    acknowledge: ({ number }) => void acknowledged.push(number),
  });
  const running = receiver.run();
  const send = async (number: bigint, counts: MessageInitShape<typeof TrafficCountSchema>[]) => {
    receiver.receive(create(TrafficBatchSchema, { series, number, counts }));
    await until("it is acknowledged", async () => acknowledged.includes(number));
  };
  const count = { projectId: project, channel: "production", hour: BigInt(hour.getTime() / hourMs), requests: 1n };
  try {
    await send(1n, [count, { ...count, projectId: cursed }]);
    expect(await hours()).toEqual([]);
    expect(warnings).toMatchObject([{ edgeId: edge.id, number: 1, rows: 2, code: "22012" }]);
    // Counts that make no sense are named once, however many batches have some.
    for (const number of [2n, 3n, 4n]) await send(number, [count, { ...count, bytesOut: 2n ** 50n, channel: "dev" }]);
    expect((await month()).requests).toBe(3);
    expect(warnings.slice(1)).toMatchObject([{ edgeId: edge.id, dropped: 1 }]);
  } finally {
    stop.abort();
    await running;
    await sql`alter table traffic_hour drop constraint cursed`.execute(db);
  }
});

test("a router's batch is acknowledged when it is counted, also when it comes again over another replica", async () => {
  const count = {
    ...{ projectId: project, channel: "production", hour: BigInt(hour.getTime() / hourMs) },
    ...{ requests: 5n, bytesIn: 6n, bytesOut: 7n, status2xx: 5n },
  };
  const batch = { series, number: 1n, counts: [count, { ...count, channel: "nothing of ours" }] };
  {
    await using router = await aRouter(link, edge);
    router.send({ case: "traffic", value: batch });
    expect(await router.next("trafficAck")).toMatchObject({ series, number: 1n });
    router.send({ case: "traffic", value: { ...batch, series: "none", number: 2n } });
    router.send({ case: "renew", value: { n: 1n } });
    await router.next("renewAck");
  }
  await using other = await world.startLink();
  await using router = await aRouter(other, edge);
  router.send({ case: "traffic", value: batch });
  expect(await router.next("trafficAck")).toMatchObject({ number: 1n });
  router.send({ case: "traffic", value: { ...batch, number: 2n } });
  expect(await router.next("trafficAck")).toMatchObject({ number: 2n });
  await until("both are counted", async () => (await month()).requests === 10);
  expect(await month()).toEqual({ requests: 10, bytesIn: 12, bytesOut: 14 });
});
