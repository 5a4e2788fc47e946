import type { Clock } from "@svc/runtime/clock";
import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import { type AnalyticsData, addUp } from "./data.ts";
import { dayOf } from "./rules.ts";

/** Of each list of a month: as many as an edge lists of an hour. The rest is one value. */
const valuesPerMonth = 200;
const monthsPerRound = 200;

/**
 * Adds up months that are over and of which a day changed. All days of a month stay, so doing it again gives the whole of
 * it. Returns how many months that were; fewer than `monthsPerRound`: no more are left.
 */
export async function foldMonths({ clock, db }: { clock: Clock; db: Db }): Promise<number> {
  return db.transaction().execute(async (tx) => {
    const today = dayOf(clock.now());
    const { rows: months } = await sql<{ project_id: string; channel: string; month: string }>`
      select project_id, channel, month::text from analytics_unfolded_month
      where month < date_trunc('month', ${today}::timestamp)
      order by month, project_id, channel limit ${monthsPerRound} for update skip locked`.execute(tx);
    for (const { project_id: projectId, channel, month } of months) {
      const { rows: days } = await sql<{ day: string; data: AnalyticsData; visitors: number }>`
        select day::text, data, visitors from analytics_day where project_id = ${projectId} and channel = ${channel}
          and day >= ${month}::date and day < ${month}::date + interval '1 month'`.execute(tx);
      const data = JSON.stringify(
        addUp(
          days.map((each) => each.data),
          valuesPerMonth,
          true,
        ),
      );
      const visitors = JSON.stringify(Object.fromEntries(days.map((each) => [each.day, each.visitors])));
      await sql`
        insert into analytics_month (project_id, channel, month, data, visitors)
        values (${projectId}, ${channel}, ${month}::date, ${data}::jsonb, ${visitors}::jsonb)
        on conflict (project_id, channel, month) do update set data = excluded.data, visitors = excluded.visitors`.execute(
        tx,
      );
      await sql`delete from analytics_unfolded_month where project_id = ${projectId} and channel = ${channel}
        and month = ${month}::date`.execute(tx);
    }
    return months.length;
  });
}
