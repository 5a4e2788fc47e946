import { createHash, randomBytes, randomUUID } from "node:crypto";
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { AnalyticsRowSchema } from "@svc/proto/edge";
import { addUnique, encodeUniques, noUniques } from "@svc/proto/uniques";
import { systemClock } from "@svc/runtime/system";
import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createLog } from "../../log.ts";
import { createSecrets } from "../../stores/secrets.ts";
import type { Link } from "../daemons/start.ts";
import { aDaemon, aRouter, aWorld, type DaemonFiles, type World } from "../daemons/testing.ts";
import { applyAnalytics } from "./apply.ts";
import { expireAnalytics, foldDays } from "./fold.ts";
import { keepAnalytics } from "./keep.ts";
import { type AnalyticsHour, dayOf } from "./rules.ts";
import { loadSalts } from "./salts.ts";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const secrets = createSecrets([randomBytes(32)]);
const log = createLog("silent", "control");

let world: World;
let link: Link;
let edges: DaemonFiles[];
beforeAll(async () => {
  world = await aWorld();
  link = await world.startLink({ loadSalts: () => loadSalts({ clock: systemClock, db: world.database.db, secrets }) });
  edges = [await aDaemon(world, link, "edge"), await aDaemon(world, link, "edge")];
});
afterAll(async () => {
  await link[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
});

let project: string;
beforeEach(async () => {
  project = await aProject();
});

async function aProject(): Promise<string> {
  const { db } = world.database;
  const { rows } = await sql<{ id: string }>`
    insert into auth."user" (name, email, "emailVerified", "updatedAt")
    values ('U', ${`${randomUUID()}@example.test`}, true, now()) returning id`.execute(db);
  const owner_id = rows[0]?.id ?? "";
  const values = { owner_id, name: "Shop", slug: `s${randomUUID().slice(0, 12)}`, type: "static" as const };
  return (await db.insertInto("project").values(values).returning("id").executeTakeFirstOrThrow()).id;
}

const clockAt = (at: Date) => ({ ...systemClock, now: () => at });
const visitors = (...names: string[]) => {
  const all = noUniques();
  for (const name of names) addUnique(all, createHash("sha256").update(name).digest("hex").slice(0, 16));
  return encodeUniques(all);
};
const anHour = (hour: Date, requests: number, more: Partial<AnalyticsHour> = {}): AnalyticsHour => ({
  ...{ series: randomUUID(), seq: 1, projectId: project, channel: "production", hour, visitors: visitors() },
  data: {
    ...{ sampled: false, s2xx: requests, s3xx: 0, s4xx: 0, s5xx: 0, paths: [["/", requests]] },
    ...{ referrers: [], countries: [], devices: [], browsers: [], operatingSystems: [] },
  },
  ...more,
});
const apply = (edge: number, ...hours: AnalyticsHour[]) =>
  applyAnalytics(world.database.db, edges[edge]?.id ?? "", hours);
const requests = async () =>
  (
    await sql<{ sum: number }>`select coalesce(sum((data->>'s2xx')::int), 0)::int as sum from analytics_hour
      where project_id = ${project}`.execute(world.database.db)
  ).rows[0]?.sum;
const days = async () =>
  (
    await sql<{ day: string; requests: number; visitors: number }>`
      select day::text, (data->>'s2xx')::int as requests, visitors from analytics_day where project_id = ${project}
      order by 1`.execute(world.database.db)
  ).rows;

const noon = new Date("2026-02-28T12:00:00Z");

test("a row takes the place of what it was: twice delivered, out of order, and by many at once", async () => {
  const first = anHour(noon, 5);
  const { series } = first;
  await apply(0, first);
  await apply(0, first);
  await apply(0, anHour(noon, 9, { series, seq: 3 }));
  await apply(0, anHour(noon, 7, { series, seq: 2 }));
  expect(await requests()).toBe(9);
  await Promise.all(Array.from({ length: 8 }, (_, n) => apply(0, anHour(noon, 10 + n, { series, seq: 4 + n }))));
  expect(await requests()).toBe(17);
});

test("two edges, and an edge that begins anew, add up", async () => {
  await apply(0, anHour(noon, 1));
  await apply(1, anHour(noon, 2));
  await apply(0, anHour(noon, 4));
  expect(await requests()).toBe(7);
});

test("one edge has no more series of an hour than an edge has", async () => {
  for (let n = 0; n < 70; n += 1) await apply(0, anHour(noon, 1));
  expect(await requests()).toBeLessThanOrEqual(65);
});

test("rows of a project that is gone hold up no others", async () => {
  await apply(0, anHour(noon, 1), anHour(noon, 5, { projectId: randomUUID() }));
  expect(await requests()).toBe(1);
});

test("days are added up over hours and edges once they are over, also again, and each by its own date", async () => {
  const { db } = world.database;
  const midnight = new Date("2026-03-01T00:00:00Z");
  const before = new Date(midnight.getTime() - hourMs);
  await apply(
    0,
    anHour(before, 1, { visitors: visitors("a", "b") }),
    anHour(midnight, 10, { visitors: visitors("a") }),
  );
  await apply(1, anHour(before, 2, { visitors: visitors("b", "c") }));
  const fold = (at: string) => foldDays({ clock: clockAt(new Date(at)), db });
  await fold("2026-03-01T10:00:00Z");
  expect(await days()).toEqual([{ day: "2026-02-28", requests: 3, visitors: 3 }]);
  // An edge was cut off meanwhile.
  await apply(1, anHour(noon, 4, { visitors: visitors("d") }));
  await fold("2026-03-02T00:00:01Z");
  expect(await days()).toEqual([
    { day: "2026-02-28", requests: 7, visitors: 4 },
    { day: "2026-03-01", requests: 10, visitors: 1 },
  ]);
  expect(await fold("2026-03-02T00:00:01Z")).toBe(0);
});

test("rows that come while days are added up are in them in the end", async () => {
  const { db } = world.database;
  const clock = clockAt(new Date("2026-03-05T00:00:00Z"));
  const rows = Array.from({ length: 20 }, (_, n) => apply(n % 2, anHour(noon, 1)));
  await Promise.all([...rows, ...Array.from({ length: 5 }, () => foldDays({ clock, db }))]);
  await foldDays({ clock, db });
  expect(await days()).toEqual([{ day: "2026-02-28", requests: 20, visitors: 0 }]);
});

test("hours go after eight days, their days stay, and all goes with the project", async () => {
  const { db } = world.database;
  await apply(0, anHour(noon, 1));
  const at = (days: number) => clockAt(new Date(Date.parse("2026-02-28") + days * dayMs));
  await foldDays({ clock: at(1), db });
  await expireAnalytics({ clock: at(8), db });
  expect(await requests()).toBe(1);
  await expireAnalytics({ clock: at(9), db });
  expect(await requests()).toBe(0);
  expect(await days()).toHaveLength(1);
  await db.deleteFrom("project").where("id", "=", project).execute();
  expect(await days()).toEqual([]);
});

test("salts are made a week ahead, once, and destroyed two hours after their day", async () => {
  const { db } = world.database;
  await db.deleteFrom("analytics_salt").execute();
  const keep = (at: string) => keepAnalytics({ clock: clockAt(new Date(at)), db, secrets, isWanted: true, log });
  const load = (at: string) => loadSalts({ clock: clockAt(new Date(at)), db, secrets });
  await Promise.all([keep("2026-02-28T01:00:00Z"), keep("2026-02-28T01:00:00Z")]);
  const first = await load("2026-02-28T01:00:00Z");
  expect(first.map(({ day }) => day)).toEqual(
    [27, 28].map((day) => `2026-02-${day}`).concat([1, 2, 3, 4, 5, 6, 7].map((day) => `2026-03-0${day}`)),
  );
  expect(new Set(first.map(({ salt }) => Buffer.from(salt).toString("hex"))).size).toBe(9);
  await keep("2026-03-01T02:00:00Z");
  const later = await load("2026-03-01T02:00:00Z");
  expect([later[0]?.day, later.at(-1)?.day]).toEqual(["2026-03-01", "2026-03-08"]);
  expect(later[0]).toEqual(first[2]);
  const { rows } = await sql<{ day: string }>`select day::text from analytics_salt order by 1`.execute(db);
  expect(rows[0]?.day).toBe("2026-03-01");
  await keepAnalytics({ clock: systemClock, db, secrets, isWanted: false, log });
  expect(await db.selectFrom("analytics_salt").selectAll().execute()).toEqual([]);
});

test("a router is told the salts, and its rows are acknowledged", async () => {
  const { db } = world.database;
  const today = dayOf(new Date());
  await using router = await aRouter(link, edges[0] as DaemonFiles, { knowsAnalytics: true });
  await keepAnalytics({ clock: systemClock, db, secrets, isWanted: true, log });
  const { salts } = await router.next("salts");
  expect(salts.find(({ day }) => day === today)?.salt).toHaveLength(32);
  const row: MessageInitShape<typeof AnalyticsRowSchema> = {
    ...{
      series: randomUUID(),
      seq: 1n,
      projectId: project,
      channel: "production",
      status2xx: 3n,
      visitors: visitors("a"),
    },
    hour: BigInt(Math.floor(Date.now() / hourMs)),
  };
  const nonsense = { ...row, series: "none", visitors: Uint8Array.of(7) };
  router.send({ case: "analytics", value: { number: 1n, rows: [row, nonsense] } });
  expect(await router.next("analyticsAck")).toMatchObject({ number: 1n });
  router.send({ case: "analytics", value: { number: 2n, rows: [{ ...row, seq: 2n, status2xx: 4n }] } });
  expect(await router.next("analyticsAck")).toMatchObject({ number: 2n });
  expect(await requests()).toBe(4);
});

test("a router that knows nothing of analytics is told nothing, and one is told when there are to be none", async () => {
  await using old = await aRouter(link, edges[0] as DaemonFiles);
  old.send({ case: "renew", value: { n: 1n } });
  await old.next("renewAck");
  expect(old.waiting("salts")).toBe(0);
  await using off = await world.startLink();
  await using router = await aRouter(off, edges[1] as DaemonFiles, { knowsAnalytics: true });
  expect((await router.next("salts")).salts).toEqual([]);
});
