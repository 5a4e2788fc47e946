import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import type { AnalyticsHour } from "./rules.ts";

/** Of one hour of a channel, by one edge: an edge that begins anew more often than this is not one of ours. */
const seriesMax = 64;

/**
 * Puts rows in the place of what they were before; one that is as old as what is there, or older, changes nothing. Whole or
 * not at all. Rows of projects that are gone are left out.
 */
export async function applyAnalytics(db: Db, edgeId: string, hours: readonly AnalyticsHour[]): Promise<void> {
  if (hours.length === 0) return;
  const rows = hours.map(({ visitors, ...hour }) => ({ ...hour, visitors: Buffer.from(visitors).toString("base64") }));
  await db.transaction().execute(async (tx) => {
    const ids = [...new Set(hours.map(({ projectId }) => projectId))];
    // Before the rows below, whose foreign keys would take the same locks later, and in the order of everybody else.
    await sql`select from project where id = any(${ids}::uuid[]) order by id for key share`.execute(tx);
    const counted = sql`jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as counted("projectId" uuid, channel text,
      hour timestamptz, series uuid, seq bigint, data jsonb, visitors text)
      join project on project.id = counted."projectId"`;
    // Sorted, so that edges wait for one another and never in a circle. A mark that is there is locked: whoever adds the day
    // up meanwhile is waited for, and the mark made again.
    await sql`
      insert into analytics_unfolded (project_id, channel, day)
      select distinct counted."projectId", counted.channel, (counted.hour at time zone 'UTC')::date
      from ${counted} order by 1, 2, 3
      on conflict (project_id, channel, day) do update set touched_at = now()`.execute(tx);
    await sql`
      insert into analytics_hour (project_id, channel, hour, edge_id, series, seq, data, visitors)
      select counted."projectId", counted.channel, counted.hour, ${edgeId}, counted.series, counted.seq, counted.data,
        decode(counted.visitors, 'base64')
      from ${counted}
      where (
        select count(*) from analytics_hour known where known.project_id = counted."projectId"
          and known.channel = counted.channel and known.hour = counted.hour and known.edge_id = ${edgeId}
          and known.series <> counted.series
      ) < ${seriesMax}
      order by 1, 2, 3, 5
      on conflict (project_id, channel, hour, edge_id, series) do update
        set seq = excluded.seq, data = excluded.data, visitors = excluded.visitors
        where excluded.seq > analytics_hour.seq`.execute(tx);
  });
}
