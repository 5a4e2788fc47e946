/**
 * The API with figures of many projects over two years, on a Postgres of its own. Asks for all figures of one project after
 * the other, each of another one, and prints one line of JSON: milliseconds by question.
 *
 * Run by test/bench/metrics.ts.
 */
import { randomUUID } from "node:crypto";
import { systemClock } from "@svc/runtime/system";
import { sql } from "kysely";
import { type AnalyticsData, noAnalytics } from "../../fleet/analytics/data.ts";
import { foldMonths } from "../../fleet/analytics/fold-months.ts";
import { applyTraffic } from "../../fleet/traffic/apply.ts";
import { testApi } from "../../http/testing.ts";
import type { Db } from "../../stores/db/pool.ts";

const projects = Number(process.argv[2] ?? 10_000);
const days = Number(process.argv[3] ?? 730);
const asked = Math.min(200, projects);
/** Days that are read one by one, and then some. */
const recentDays = 70;

const said = (what: string) => console.error(`${what}, after ${Math.round(systemClock.steadyMs() - begunMs)} ms`);
const begunMs = systemClock.steadyMs();

await using api = await testApi();
const owner = await api.newUser();
await sql`insert into project (owner_id, name, slug, type)
  select ${owner.id}, 'P', 'p' || n, 'static' from generate_series(1, ${projects}::int) as n`.execute(api.db);

/** Neither triggers nor foreign keys, which is what takes time, and no bound for a statement. */
const fill = (work: (tx: Db) => Promise<void>): Promise<void> =>
  api.db.transaction().execute(async (tx) => {
    await sql`set local statement_timeout = 0`.execute(tx);
    await sql`set local session_replication_role = replica`.execute(tx);
    await sql`set local maintenance_work_mem = '256MB'`.execute(tx);
    await work(tx);
  });

/** The table without its primary key, which is made when all rows are there: a tenth of the time. */
async function fillWhole(tx: Db, table: "traffic_day" | "resource_day", work: () => Promise<unknown>): Promise<void> {
  const key = sql.ref(`${table}_pkey`);
  await sql`alter table ${sql.table(table)} drop constraint ${key}`.execute(tx);
  await work();
  await sql`alter table ${sql.table(table)} add constraint ${key} primary key (project_id, channel, day)`.execute(tx);
  said(`${table} is there`);
}

// Day by day, as they come: what is of one project lies in as many places as there are days.
const everyDay = sql`from generate_series(${days - 1}::int, 0, -1) as ago, lateral (
  select id, current_date - ago as day from project offset 0) as known`;
await fill(async (tx) => {
  await fillWhole(tx, "traffic_day", () =>
    sql`insert into traffic_day (project_id, channel, day, requests, bytes_in, bytes_out, s2xx)
      select id, 'production', day, 1000, 5, 9, 1000 ${everyDay}`.execute(tx),
  );
  await fillWhole(tx, "resource_day", () =>
    sql`insert into resource_day (project_id, channel, day, moments, samples, cpu_sum, cpu_max, memory_sum, memory_max)
      select id, 'all', day, 2880, 5760, 9, 5, 9, 5 ${everyDay}`.execute(tx),
  );
  await sql`insert into traffic_total_hour (hour, requests, bytes_out)
    select date_trunc('hour', now()) - n * interval '1 hour', 1000, 9 from generate_series(0, ${days * 24}::int) as n`.execute(
    tx,
  );
});
const { rows: chosen } = await sql<{ id: string }>`
  select id from project order by md5(id::text) limit ${asked}`.execute(api.db);
const ids = chosen.map(({ id }) => id);

/** A day of a lively site: lists as long as days keep them, of which some values come every day and others now and then. */
function aDay(ago: number): AnalyticsData {
  const list = (name: string, kept: number, all: number): [string, number][] =>
    Array.from({ length: kept }, (_, at) => [`${name}${at < kept / 2 ? at : (at * 7 + ago * 13) % all}`, 5_000 - at]);
  return {
    ...noAnalytics(),
    ...{ s2xx: 90_000, s3xx: 900, s4xx: 90, s5xx: 9 },
    paths: [...list("/articles/some-words-of-a-title-", 50, 900), ["(other)", 4_000]],
    referrers: list("referrer.test/", 50, 300),
    countries: list("", 50, 120),
    devices: list("device", 4, 4),
    browsers: list("Browser ", 12, 12),
    operatingSystems: list("System ", 8, 8),
  };
}

const [model = ""] = ids;
const dated = Array.from({ length: days }, (_, ago) => ({ ago, data: aDay(ago), visitors: 1_000 + (ago % 90) }));
await sql`insert into analytics_day (project_id, channel, day, data, visitors)
  select ${model}::uuid, 'production', current_date - ago, data, visitors
  from jsonb_to_recordset(${JSON.stringify(dated)}::jsonb) as dated(ago int, data jsonb, visitors int)`.execute(api.db);
const foldedMs = systemClock.steadyMs();
const months = await foldMonths({ clock: systemClock, db: api.db });
const fold = [(systemClock.steadyMs() - foldedMs) / Math.max(1, months)];
await fill(async (tx) => {
  const { rows: folded } = await sql<{ month: string }>`
    select month::text from analytics_month order by month`.execute(tx);
  for (const { month } of folded) {
    await sql`insert into analytics_month (project_id, channel, month, data, visitors)
      select project.id, channel, month, data, visitors from project, analytics_month
      where analytics_month.project_id = ${model}::uuid and month = ${month}::date and project.id <> ${model}::uuid`.execute(
      tx,
    );
  }
  await sql`insert into analytics_day (project_id, channel, day, data, visitors)
    select project.id, channel, day, data, visitors from analytics_day, project
    where analytics_day.project_id = ${model}::uuid and day > current_date - ${recentDays}::int
      and project.id = any(${ids}::uuid[]) and project.id <> ${model}::uuid`.execute(tx);
});
said("months are there");

for (const table of [
  "project",
  "traffic_day",
  "resource_day",
  "traffic_total_hour",
  "analytics_month",
  "analytics_day",
])
  await fill(async (tx) => void (await sql`analyze ${sql.table(table)}`.execute(tx)));
const admin = await api.newUser({ admin: true });

async function measure(session: string, paths: readonly string[]): Promise<number[]> {
  const tookMs: number[] = [];
  for (const path of paths) {
    const startMs = systemClock.steadyMs();
    const { status, text } = await api.call("GET", path, { session });
    if (status !== 200) throw new Error(text);
    tookMs.push(systemClock.steadyMs() - startMs);
  }
  const [middle = 0, most = 0] = [0.5, 0.95].map(
    (at) => tookMs.toSorted((a, b) => a - b)[Math.floor(tookMs.length * at)],
  );
  said(`${paths[0]?.replace(/[0-9a-f-]{36}/, ":id")} takes ${middle.toFixed(1)} ms, p95 ${most.toFixed(1)} ms`);
  return tookMs;
}

const { rows: edgeIds } = await sql<{ id: string }>`insert into node (role, name)
  select 'edge', 'edge' || n from generate_series(1, 2) as n returning id`.execute(api.db);

/** An edge has something of every project; milliseconds until that is counted. Those of other edges wait as long. */
async function aBatch(edgeId: string): Promise<number> {
  const hour = new Date(Math.floor(Date.now() / 3_600_000) * 3_600_000);
  const counted = { requests: 9, bytesIn: 9, bytesOut: 9, s2xx: 9, s3xx: 0, s4xx: 0, s5xx: 0, metered: true };
  const { rows: every } = await sql<{ projectId: string }>`
    select id as "projectId" from project limit 10000`.execute(api.db);
  const rows = every.map(({ projectId }) => ({ projectId, channel: "production" as const, hour, ...counted }));
  const startMs = systemClock.steadyMs();
  await applyTraffic(api.db, { edgeId, series: randomUUID(), number: 1, rows });
  return systemClock.steadyMs() - startMs;
}

const each = (what: string) => ids.map((id) => `/projects/${id}/${what}?span=all`);
const again = (path: string) => Array.from({ length: 50 }, () => path);
const results = {
  metrics: await measure(owner.session, each("metrics")),
  resources: await measure(owner.session, each("resources")),
  analytics: await measure(owner.session, each("analytics")),
  analytics90: await measure(
    owner.session,
    ids.map((id) => `/projects/${id}/analytics?span=90d`),
  ),
  series: await measure(admin.session, again("/admin/series?days=365")),
  stats: await measure(admin.session, again("/admin/stats")),
  fold,
  newHour: [await aBatch(edgeIds[0]?.id ?? "")],
  sameHour: [await aBatch(edgeIds[1]?.id ?? "")],
};
said("asked");
console.log(JSON.stringify(results));
