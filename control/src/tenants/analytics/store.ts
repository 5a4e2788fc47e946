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
    const { rows } = await sql<{ day: string; data: AnalyticsData; visitors: number }>`
      select day::text, data, visitors from analytics_day
      where project_id = ${of.projectId} and channel = ${of.channel} and day < ${days.before}::date
        and day >= coalesce(${days.from}::date, '-infinity')`.execute(db);
    data.push(...rows.map((row) => row.data));
    for (const row of rows) visitors.set(row.day, row.visitors);
  }
  return { data, visitors };
}
