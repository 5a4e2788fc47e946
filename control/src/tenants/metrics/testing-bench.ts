/**
 * The API with figures of many projects over two years, on a Postgres of its own. Asks for figures of one project after
 * the other, each of another one, and prints one line of JSON: milliseconds by question, and what the database does.
 *
 * Run by test/bench/metrics.ts.
 */
import { systemClock } from "@svc/runtime/system";
import { sql } from "kysely";
import { testApi } from "../../http/testing.ts";

const projects = Number(process.argv[2] ?? 10_000);
const days = 730;
const asked = 400;

await using api = await testApi();
const owner = await api.newUser();
await sql`insert into project (owner_id, name, slug, type)
  select ${owner.id}, 'P', 'p' || n, 'static' from generate_series(1, ${projects}::int) as n`.execute(api.db);
// So many rows take longer than a statement of the API may.
await api.db.transaction().execute(async (tx) => {
  await sql`set local statement_timeout = 0`.execute(tx);
  await sql`insert into traffic_day (project_id, channel, day, requests, bytes_in, bytes_out, s2xx)
    select project.id, 'production', current_date - n, 1000, 5, 9, 1000
    from project, generate_series(0, ${days - 1}::int) as n`.execute(tx);
  await sql`insert into resource_day (project_id, channel, day, moments, samples, cpu_sum, cpu_max, memory_sum, memory_max)
    select project.id, 'all', current_date - n, 2880, 5760, 9, 5, 9, 5
    from project, generate_series(0, ${days - 1}::int) as n`.execute(tx);
  await sql`insert into traffic_total_hour (hour, requests, bytes_out)
    select date_trunc('hour', now()) - n * interval '1 hour', 1000, 9 from generate_series(0, ${days * 24}::int) as n`.execute(
    tx,
  );
  for (const table of ["project", "traffic_day", "resource_day", "traffic_total_hour"])
    await sql`analyze ${sql.table(table)}`.execute(tx);
});
const { rows: chosen } = await sql<{ id: string }>`
  select id from project order by md5(id::text) limit ${asked}`.execute(api.db);
const admin = await api.newUser({ admin: true });

async function measure(session: string, paths: readonly string[]): Promise<number[]> {
  const tookMs: number[] = [];
  for (const path of paths) {
    const startMs = systemClock.steadyMs();
    const { status, text } = await api.call("GET", path, { session });
    if (status !== 200) throw new Error(text);
    tookMs.push(systemClock.steadyMs() - startMs);
  }
  return tookMs;
}
const each = (what: string) => chosen.map(({ id }) => `/projects/${id}/${what}`);
const again = (path: string) => Array.from({ length: 50 }, () => path);
const { rows: explained } = await sql<{ "QUERY PLAN": string }>`explain (analyze, buffers)
  select day, sum(requests) from traffic_day where project_id = ${chosen[0]?.id} group by day order by day`.execute(
  api.db,
);
console.log(
  JSON.stringify({
    metrics: await measure(owner.session, each("metrics?span=all")),
    resources: await measure(owner.session, each("resources?span=all")),
    series: await measure(admin.session, again("/admin/series?days=365")),
    stats: await measure(admin.session, again("/admin/stats")),
    explained: explained.map((line) => line["QUERY PLAN"]),
  }),
);
