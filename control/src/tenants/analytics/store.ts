import type { Channel } from "@svc/proto";
import { countUniques } from "@svc/proto/uniques";
import { type RawBuilder, sql } from "kysely";
import { type AnalyticsData, analyticsLists, noAnalytics, statusClasses } from "../../fleet/analytics/data.ts";
import { visitorsOf } from "../../fleet/analytics/fold.ts";
import { bounded } from "../../stores/db/bounded.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Reading } from "./rules.ts";

/** What was counted of a channel, and its visitors by day (UTC). */
export async function readAnalytics(
  db: Db,
  of: { projectId: string; channel: Channel },
  { hours, days }: Reading,
): Promise<{ data: AnalyticsData[]; visitors: Map<string, number> }> {
  const data: AnalyticsData[] = [];
  const visitors = new Map<string, number>();
  const hourly: { day: string; visitors: Buffer }[] = [];
  for (const { from, before } of hours) {
    const { rows } = await sql<{ day: string; data: AnalyticsData; visitors: Buffer }>`
      select (hour at time zone 'UTC')::date::text as day, data, visitors from analytics_hour
      where project_id = ${of.projectId} and channel = ${of.channel} and hour >= ${from}
        and hour < coalesce(${before}::timestamptz, 'infinity')`.execute(db);
    data.push(...rows.map((row) => row.data));
    hourly.push(...rows);
  }
  for (const [day, rows] of Map.groupBy(hourly, (row) => row.day)) visitors.set(day, countUniques(visitorsOf(rows)));
  if (days !== null) {
    const asked = sql`analytics_day where project_id = ${of.projectId} and channel = ${of.channel}
      and day < ${days.before}::date and day >= coalesce(${days.from}::date, '-infinity')`;
    const { rows } = await sql<{ day: string; visitors: number }>`select day::text, visitors from ${asked}`.execute(db);
    for (const row of rows) visitors.set(row.day, row.visitors);
    if (rows.length > 0) data.push(await sumOf(db, asked));
  }
  return { data, visitors };
}

/** Of each list; what is less frequent than so many others is not among those that are shown. */
const valuesRead = 500;

/**
 * Days together. The database adds them up: those of years are megabytes, and whoever read these here would keep everybody
 * else waiting meanwhile.
 *
 * @param asked what follows "from"
 */
async function sumOf(db: Db, asked: RawBuilder<unknown>): Promise<AnalyticsData> {
  const statuses = statusClasses.map(
    (name) => sql`${bounded(sql`sum((data->>${sql.lit(name)})::numeric)`)} as ${sql.ref(name)}`,
  );
  const { rows: sums } = await sql<Pick<AnalyticsData, "sampled" | (typeof statusClasses)[number]>>`
    select coalesce(bool_or((data->>'sampled')::boolean), false) as sampled, ${sql.join(statuses)} from ${asked}`.execute(
    db,
  );
  const { rows } = await sql<{ list: string; value: string; count: number }>`
    select list, value, ${bounded(sql`count`)} as count from (
      select list, value, count, row_number() over (partition by list order by count desc, value collate "C") as place
      from (
        select list, entry->>0 as value, sum((entry->>1)::numeric) as count
        from (select data from ${asked}) as days, jsonb_each(data) as part(list, entries),
          jsonb_array_elements(case jsonb_typeof(entries) when 'array' then entries else '[]' end) as entry
        group by 1, 2
      ) as counted
    ) as ranked where place <= ${valuesRead}`.execute(db);
  const sum = { ...noAnalytics(), ...sums[0] };
  for (const list of analyticsLists)
    sum[list] = rows.filter((row) => row.list === list).map(({ value, count }) => [value, count]);
  return sum;
}
