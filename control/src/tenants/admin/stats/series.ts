import type { Series } from "@svc/proto";
import { type RawBuilder, sql } from "kysely";
import { bounded } from "../../../stores/db/bounded.ts";
import type { Db } from "../../../stores/db/pool.ts";

/** The first moment of the first of so many days, of which today is the last. */
const since = (days: number): RawBuilder<Date> =>
  sql`(date_trunc('day', now() at time zone 'utc') - ${days - 1}::int * interval '1 day') at time zone 'utc'`;

const dayOf = (time: RawBuilder<unknown>): RawBuilder<string> => sql`(${time} at time zone 'utc')::date`;

export async function readSeries(db: Db, days: number): Promise<Series> {
  const countPerDay = async (rows: RawBuilder<unknown>) =>
    (
      await sql<{ day: string; count: number }>`
        select ${dayOf(sql`at`)} as day, count(*) as count from (${rows}) events
        where at >= ${since(days)} group by 1 order by 1`.execute(db)
    ).rows;
  const signups = await countPerDay(sql`select "createdAt" as at from auth."user"`);
  const deployments = await countPerDay(sql`select created_at as at from deployment`);
  const { rows: requests } = await sql<Series["requests"][number]>`
    select ${dayOf(sql`hour`)} as day, ${bounded(sql`sum(requests)`)} as count, ${bounded(sql`sum(bytes_out)`)} as "bytesOut"
    from traffic_total_hour where hour >= ${since(days)}
    group by 1 having sum(requests) > 0 order by 1`.execute(db);
  return { days, signups, requests, deployments };
}
