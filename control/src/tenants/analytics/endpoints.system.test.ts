import { createHash, randomUUID } from "node:crypto";
import { addUnique, encodeUniques, noUniques } from "@svc/proto/uniques";
import { systemClock } from "@svc/runtime/system";
import { sql } from "kysely";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { applyAnalytics } from "../../fleet/analytics/apply.ts";
import { type AnalyticsData, noAnalytics } from "../../fleet/analytics/data.ts";
import { foldDays } from "../../fleet/analytics/fold.ts";
import { foldMonths } from "../../fleet/analytics/fold-months.ts";
import { dayOf } from "../../fleet/analytics/rules.ts";
import { type TestApi, testApi } from "../../http/testing.ts";

type Person = Awaited<ReturnType<TestApi["newUser"]>>;

let api: TestApi;
beforeAll(async () => {
  api = await testApi();
});
afterAll(() => api[Symbol.asyncDispose]());

let owner: Person;
let project: string;
beforeEach(async () => {
  owner = await api.newUser();
  project = (await api.newProject(owner)).id;
});

const hourMs = 3_600_000;
const now = () => new Date();
const hourAgo = (hours: number) => new Date((Math.floor(now().getTime() / hourMs) - hours) * hourMs);
const read = (query = "") => api.call("GET", `/projects/${project}/analytics${query}`, { session: owner.session });

async function count(hours: number, data: Partial<AnalyticsData>, names: string[] = [], channel = "production") {
  const visitors = noUniques();
  for (const name of names) addUnique(visitors, createHash("sha256").update(name).digest("hex").slice(0, 16));
  const about = { series: randomUUID(), seq: 1, projectId: project, channel: channel as "production" };
  const row = {
    ...about,
    hour: hourAgo(hours),
    data: { ...noAnalytics(), ...data },
    visitors: encodeUniques(visitors),
  };
  await applyAnalytics(api.db, randomUUID(), [row]);
}

test("without visits everything is there, and empty", async () => {
  const { status, body } = await read();
  expect([status, body]).toEqual([
    200,
    {
      ok: true,
      analytics: {
        ...{ span: "7d", channel: "production", sampled: false },
        ...{ paths: [], referrers: [], countries: [], devices: [], browsers: [], operatingSystems: [] },
        ...{ statuses: { s2xx: 0, s3xx: 0, s4xx: 0, s5xx: 0 }, visitors: [] },
      },
    },
  ]);
});

test("edges and hours add up, the most frequent first, and a visitor of both counts once", async () => {
  await count(
    0,
    {
      s2xx: 5,
      s4xx: 1,
      paths: [
        ["/", 3],
        ["/a", 2],
      ],
      devices: [["desktop", 5]],
    },
    ["ann", "ben"],
  );
  await count(0, { s2xx: 4, s5xx: 2, paths: [["/a", 4]], devices: [["bot", 4]], browsers: [["(bot)", 4]] }, [
    "ben",
    "eve",
  ]);
  await count(0, { s2xx: 100, paths: [["/dev", 100]] }, ["dan"], "dev");
  const { body } = await read("?span=1h");
  expect(body.analytics).toMatchObject({
    paths: [
      { value: "/a", count: 6 },
      { value: "/", count: 3 },
    ],
    devices: [
      { value: "desktop", count: 5 },
      { value: "bot", count: 4 },
    ],
    browsers: [{ value: "(bot)", count: 4 }],
    statuses: { s2xx: 9, s3xx: 0, s4xx: 1, s5xx: 2 },
    visitors: [{ day: dayOf(hourAgo(0)), count: 3 }],
  });
  expect((await read("?span=1h&channel=dev")).body.analytics.paths).toEqual([{ value: "/dev", count: 100 }]);
  expect((await read("?channel=preview")).body.analytics.paths).toEqual([]);
});

test("of each list there are 25 at most", async () => {
  await count(0, { paths: Array.from({ length: 60 }, (_, n) => [`/${n}`, 100 - n]) });
  const { paths } = (await read()).body.analytics;
  expect(paths).toHaveLength(25);
  expect([paths[0], paths[24]]).toEqual([
    { value: "/0", count: 100 },
    { value: "/24", count: 76 },
  ]);
});

test("spans reach as far as they say, and old days are read by the day", async () => {
  await count(0, { s2xx: 1 });
  await count(30, { s2xx: 10 });
  // Early in the day that is the day before yesterday, which is not read by the hour any more.
  while ((await foldDays({ clock: systemClock, db: api.db })) > 0);
  const day = (days: number) => dayOf(new Date(now().getTime() - days * 24 * hourMs));
  for (const [days, s2xx] of [
    [5, 100],
    [60, 1_000],
    [500, 10_000],
  ] as const) {
    const data = JSON.stringify({ ...noAnalytics(), s2xx });
    await sql`insert into analytics_day (project_id, channel, day, data, visitors)
      values (${project}, 'production', ${day(days)}::date, ${data}::jsonb, ${days})`.execute(api.db);
  }
  const found = async (span: string) => (await read(`?span=${span}`)).body.analytics;
  const sums = await Promise.all(
    ["1h", "24h", "3d", "7d", "90d", "all"].map(async (span) => (await found(span)).statuses.s2xx),
  );
  expect(sums).toEqual([1, 1, 11, 111, 1_111, 11_111]);
  expect((await found("all")).visitors).toEqual([500, 60, 5].map((days) => ({ day: day(days), count: days })));
});

test("months that are added up say what their days said, also after a day of them has changed", async () => {
  const clock = { ...systemClock, now };
  const day = (days: number) => dayOf(new Date(now().getTime() - days * 24 * hourMs));
  const countDay = (days: number, views: number) => {
    const data = {
      ...noAnalytics(),
      s2xx: views,
      paths: [
        ["/", views],
        [`/${days % 7}`, 1],
      ],
      sampled: days === 400,
    };
    return sql`insert into analytics_day (project_id, channel, day, data, visitors)
      values (${project}, 'production', ${day(days)}::date, ${JSON.stringify(data)}::jsonb, ${views})
      on conflict (project_id, channel, day) do update set data = excluded.data, visitors = excluded.visitors`.execute(
      api.db,
    );
  };
  const read = async (span: string) =>
    (await api.call("GET", `/projects/${project}/analytics?span=${span}`, { session: owner.session })).body.analytics;
  const rowsOf = async (table: "analytics_month" | "analytics_unfolded_month") =>
    (await api.db.selectFrom(table).select("month").where("project_id", "=", project).execute()).length;

  for (let days = 2; days <= 460; days += 1) await countDay(days, days);
  const byDays = [await read("90d"), await read("all")];
  expect(byDays[1].statuses.s2xx).toBe((460 * 461) / 2 - 1);
  expect(byDays[1].sampled).toBe(true);
  expect(byDays[1].visitors).toHaveLength(459);
  await Promise.all([foldMonths({ clock, db: api.db }), foldMonths({ clock, db: api.db })]);
  // The month that goes on is read by the day, and all that are over by the month.
  expect(await rowsOf("analytics_month")).toBeGreaterThanOrEqual(14);
  expect(await rowsOf("analytics_unfolded_month")).toBeLessThanOrEqual(1);
  expect([await read("90d"), await read("all")]).toEqual(byDays);
  expect(await foldMonths({ clock, db: api.db })).toBe(0);

  // A late hour of an edge that was cut off. What it changes is seen before and after its month is added up again.
  await countDay(60, 1_060);
  const later = [await read("90d"), await read("all")];
  expect(later.map(({ statuses }) => statuses.s2xx)).toEqual(byDays.map(({ statuses }) => statuses.s2xx + 1_000));
  expect(await foldMonths({ clock, db: api.db })).toBe(1);
  expect([await read("90d"), await read("all")]).toEqual(later);
});

test.each(["?span=2h", "?span=", "?channel=live", "?hours=5", "?span=1h&span=7d"])("%s is refused", async (query) => {
  const { status, body } = await read(query);
  expect([status, body.error.code]).toEqual([422, "VALIDATION"]);
});
