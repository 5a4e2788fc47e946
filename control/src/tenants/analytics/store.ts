import type { Channel } from "@svc/proto";
import { countUniques } from "@svc/proto/uniques";
import { sql } from "kysely";
import type { AnalyticsData } from "../../fleet/analytics/data.ts";
import { visitorsOf } from "../../fleet/analytics/fold.ts";
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
    const read = await readDays(db, of, days);
    data.push(...read.map((row) => row.data));
    for (const row of read) for (const [day, count] of Object.entries(row.visitors)) visitors.set(day, count);
  }
  return { data, visitors };
}

/**
 * Months that are added up and lie within the days that are asked for, and the days that are in none of these. One statement:
 * a month that is added up between two would be in both, or in none.
 */
async function readDays(
  db: Db,
  { projectId, channel }: { projectId: string; channel: Channel },
  { from, before }: NonNullable<Reading["days"]>,
): Promise<{ data: AnalyticsData; visitors: Record<string, number> }[]> {
  const { rows } = await sql<{ data: AnalyticsData; visitors: Record<string, number> }>`
    with whole as (
      select month, data, visitors from analytics_month
      where project_id = ${projectId} and channel = ${channel} and month >= coalesce(${from}::date, '-infinity')
        and month + interval '1 month' <= ${before}::date
        and not exists (
          select from analytics_unfolded_month changed where changed.project_id = ${projectId}
            and changed.channel = ${channel} and changed.month = analytics_month.month)
    )
    select data, visitors from whole
    union all
    select data, jsonb_build_object(day::text, visitors) from analytics_day
    where project_id = ${projectId} and channel = ${channel} and day < ${before}::date
      and day >= coalesce(${from}::date, '-infinity')
      and not exists (select from whole where day >= month and day < month + interval '1 month')`.execute(db);
  return rows;
}
