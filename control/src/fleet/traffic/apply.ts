import { type RawBuilder, sql } from "kysely";
import { bounded } from "../../stores/db/bounded.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { TrafficRow } from "./rules.ts";

/** Of all counts of a group. */
const sum = (name: keyof TrafficRow): RawBuilder<number> => bounded(sql`sum(${sql.ref(`counted.${name}`)})`);

/** What is there already and what comes in addition. */
const more = (table: string, columns: readonly string[]): RawBuilder<unknown> =>
  sql.join(
    columns.map((column) => {
      const [known, added] = [sql.ref(`${table}.${column}`), sql.ref(`excluded.${column}`)];
      return sql`${sql.ref(column)} = ${bounded(sql`${known}::numeric + ${added}`)}`;
    }),
  );

/** Counts of one edge under the number that it gave them. */
export interface TrafficInput {
  edgeId: string;
  series: string;
  number: number;
  rows: readonly TrafficRow[];
}

/**
 * Adds a batch to what is counted, once: false when it was counted before. Whole or not at all, however many replicas
 * are given it at once. A project that is gone counts no more, and neither its hours nor its owner's month get anything.
 * What has grown to the largest number that can be read stays there.
 */
export async function applyTraffic(db: Db, { edgeId, series, number, rows }: TrafficInput): Promise<boolean> {
  return db.transaction().execute(async (tx) => {
    const guard = await sql`
      insert into traffic_batch (edge_id, series, number) values (${edgeId}, ${series}, ${number})
      on conflict (edge_id) do update set series = excluded.series, number = excluded.number
      where traffic_batch.series <> excluded.series or traffic_batch.number < excluded.number
      returning 1`.execute(tx);
    if (guard.rows.length === 0) return false;
    const ids = [...new Set(rows.map(({ projectId }) => projectId))];
    if (ids.length === 0) return true;
    // In the order of everybody else, and before the rows below, whose foreign keys would take the same locks later.
    await sql`select from auth."user" where id in (select owner_id from project where id = any(${ids}::uuid[]))
      order by id for key share`.execute(tx);
    await sql`select from project where id = any(${ids}::uuid[]) order by id for key share`.execute(tx);
    const counted = sql`jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as counted(
      "projectId" uuid, channel text, hour timestamptz, requests bigint, "bytesIn" bigint, "bytesOut" bigint,
      s2xx bigint, s3xx bigint, s4xx bigint, s5xx bigint, metered boolean)`;
    // Sorted, so that batches of several edges wait for one another and never in a circle.
    await sql`
      insert into traffic_month (user_id, month, requests, bytes_in, bytes_out)
      select project.owner_id, date_trunc('month', counted.hour at time zone 'UTC')::date,
        ${sum("requests")}, ${sum("bytesIn")}, ${sum("bytesOut")}
      from ${counted} join project on project.id = counted."projectId"
      where counted.metered
      group by 1, 2 order by 1, 2
      on conflict (user_id, month) do update set ${more("traffic_month", ["requests", "bytes_in", "bytes_out"])}`.execute(
      tx,
    );
    await sql`
      insert into traffic_hour (project_id, channel, hour, requests, bytes_in, bytes_out, s2xx, s3xx, s4xx, s5xx)
      select counted."projectId", counted.channel, date_trunc('hour', counted.hour),
        ${sum("requests")}, ${sum("bytesIn")}, ${sum("bytesOut")},
        ${sum("s2xx")}, ${sum("s3xx")}, ${sum("s4xx")}, ${sum("s5xx")}
      from ${counted} join project on project.id = counted."projectId"
      group by 1, 2, 3 order by 1, 2, 3
      on conflict (project_id, channel, hour) do update set
        ${more("traffic_hour", ["requests", "bytes_in", "bytes_out", "s2xx", "s3xx", "s4xx", "s5xx"])}`.execute(tx);
    return true;
  });
}
