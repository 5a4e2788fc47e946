import { countUniques, decodeUniques, noUniques, type Uniques, unite } from "@svc/proto/uniques";
import type { Clock } from "@svc/runtime/clock";
import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import { type AnalyticsData, addUp } from "./data.ts";
import { dayMs, dayOf, hoursKeptDays } from "./rules.ts";

/** Of each list of a day; the rest is one value. */
const valuesPerDay = 50;
const daysPerRound = 200;
const rowsPerStatement = 5_000;

/** Those of all rows together. */
export function visitorsOf(rows: readonly { visitors: Uint8Array }[]): Uniques {
  const all = noUniques();
  for (const { visitors } of rows) {
    const some = decodeUniques(visitors);
    if (some !== null) unite(all, some);
  }
  return all;
}

/**
 * Adds up days that are over and of which an hour changed. All hours of such a day are still there, so doing it again gives
 * the whole of it. Returns how many days that were; fewer than `daysPerRound`: no more are left.
 */
export async function foldDays({ clock, db }: { clock: Clock; db: Db }): Promise<number> {
  return db.transaction().execute(async (tx) => {
    const today = dayOf(clock.now());
    // Each day marks its month: whoever adds days up meanwhile marks in the same order, and waits in no circle.
    const { rows: days } = await sql<{ project_id: string; channel: string; day: string }>`
      with claimed as (
        select project_id, channel, day from analytics_unfolded where day < ${today}::date
        order by day, project_id, channel limit ${daysPerRound} for update skip locked
      ) select project_id, channel, day::text from claimed order by project_id, channel, claimed.day`.execute(tx);
    for (const { project_id: projectId, channel, day } of days) {
      const { rows } = await sql<{ data: AnalyticsData; visitors: Buffer }>`
        select data, visitors from analytics_hour where project_id = ${projectId} and channel = ${channel}
          and hour >= ${day}::date::timestamp at time zone 'UTC'
          and hour < (${day}::date + 1)::timestamp at time zone 'UTC'`.execute(tx);
      const data = JSON.stringify(
        addUp(
          rows.map((row) => row.data),
          valuesPerDay,
          true,
        ),
      );
      await sql`
        insert into analytics_day (project_id, channel, day, data, visitors)
        values (${projectId}, ${channel}, ${day}::date, ${data}::jsonb, ${countUniques(visitorsOf(rows))})
        on conflict (project_id, channel, day) do update set data = excluded.data, visitors = excluded.visitors`.execute(
        tx,
      );
      await sql`delete from analytics_unfolded where project_id = ${projectId} and channel = ${channel}
        and day = ${day}::date`.execute(tx);
    }
    return days.length;
  });
}

/** Deletes hours that have had their time and are in their days, which stay. Returns how many rows went. */
export async function expireAnalytics({ clock, db }: { clock: Clock; db: Db }): Promise<number> {
  const before = `${dayOf(new Date(clock.now().getTime() - hoursKeptDays * dayMs))}T00:00:00Z`;
  const { numAffectedRows = 0n } = await sql`
    delete from analytics_hour where (project_id, channel, hour, edge_id, series) in (
      select project_id, channel, hour, edge_id, series from analytics_hour aged where hour < ${before}::timestamptz
        and not exists (select from analytics_unfolded waiting where waiting.project_id = aged.project_id
          and waiting.channel = aged.channel and waiting.day = (aged.hour at time zone 'UTC')::date)
      order by hour limit ${rowsPerStatement} for update skip locked)`.execute(db);
  return Number(numAffectedRows);
}
