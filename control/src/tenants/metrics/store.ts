import type { Channel, Metrics, Resources, ResourcesPoint } from "@svc/proto";
import { type RawBuilder, sql } from "kysely";
import { bounded } from "../../stores/db/bounded.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Range } from "./rules.ts";

/** Whose figures: without a channel the whole project's. */
export interface Scope {
  projectId: string;
  channel?: Channel;
}

const iso = (time: RawBuilder<unknown>): RawBuilder<string> => sql`to_char(${time}, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;

/** A table of hours or days, and how its buckets are named and compared. */
function bucketsOf(kind: "traffic" | "resource", { bucketSize, since }: Range) {
  const column = sql.ref(bucketSize);
  const isIn =
    since === null
      ? sql``
      : bucketSize === "hour"
        ? sql`and hour > ${since}::timestamptz - interval '1 hour'`
        : // A day that has begun when the range does is in it.
          sql`and day >= (${since}::timestamptz at time zone 'UTC')::date`;
  const start = bucketSize === "hour" ? sql`hour at time zone 'UTC'` : sql`day::timestamp`;
  return { table: sql.table(`${kind}_${bucketSize}`), column, isIn, bucket: iso(start) };
}

/** What visitors asked for, the oldest first; buckets without a request are left out. */
export async function readTraffic(db: Db, { projectId, channel }: Scope, range: Range): Promise<Metrics["series"]> {
  const { table, column, isIn, bucket } = bucketsOf("traffic", range);
  const sum = (name: string) => bounded(sql`sum(${sql.ref(name)})`);
  const { rows } = await sql<Metrics["series"][number]>`
    select ${bucket} as bucket, ${sum("requests")} as count, ${sum("bytes_in")} as "bytesIn",
      ${sum("bytes_out")} as "bytesOut", ${sum("s2xx")} as s2xx, ${sum("s3xx")} as s3xx, ${sum("s4xx")} as s4xx,
      ${sum("s5xx")} as s5xx
    from ${table}
    where project_id = ${projectId} ${channel === undefined ? sql`` : sql`and channel = ${channel}`} ${isIn}
    group by ${column} having sum(requests) > 0 order by ${column}`.execute(db);
  return rows;
}

const percent = (number: RawBuilder<unknown>): RawBuilder<number> => sql`round((${number})::numeric, 2)::float8`;

/** What containers took, the oldest first; buckets in which none ran are left out. */
export async function readResources(db: Db, { projectId, channel }: Scope, range: Range): Promise<ResourcesPoint[]> {
  const { table, column, isIn, bucket } = bucketsOf("resource", range);
  const { rows } = await sql<ResourcesPoint>`
    select ${bucket} as bucket, ${percent(sql`cpu_sum / moments`)} as "cpuPctAvg", ${percent(sql`cpu_max`)} as "cpuPctMax",
      ${bounded(sql`round(memory_sum / moments)`)} as "memBytesAvg", ${bounded(sql`memory_max`)} as "memBytesMax", samples
    from ${table}
    where project_id = ${projectId} and channel = ${channel ?? "all"} ${isIn}
    order by ${column}`.execute(db);
  return rows;
}

/** Agents tell it every 15 s; what is older says nothing of now. */
const freshSeconds = 60;

/** What runs now, by the newest sample of each container; null when none was looked at within the last minute. */
export async function readCurrent(db: Db, { projectId, channel }: Scope, now: Date): Promise<ResourcesPoint | null> {
  const { rows } = await sql<ResourcesPoint>`
    select ${iso(sql`max(newest.at) at time zone 'UTC'`)} as bucket, ${percent(sql`sum(cpu_percent)`)} as "cpuPctAvg",
      ${percent(sql`sum(cpu_percent)`)} as "cpuPctMax", ${bounded(sql`sum(memory_bytes)`)} as "memBytesAvg",
      ${bounded(sql`sum(memory_bytes)`)} as "memBytesMax", count(*) as samples
    from task, lateral (
      select at, cpu_percent, memory_bytes from resource_sample
      where task_id = task.id and at > ${now}::timestamptz - ${freshSeconds} * interval '1 second'
      order by at desc limit 1) as newest
    where project_id = ${projectId} and kind = 'serve' and reaped_at is null
      ${channel === undefined ? sql`` : sql`and channel = ${channel}`}
    having count(*) > 0`.execute(db);
  return rows[0] ?? null;
}

/** What is in the registry for a project; content that was pushed twice to one repository counts once. */
export async function readDisk(db: Db, projectId: string): Promise<Resources["disk"]> {
  const { rows } = await sql<Resources["disk"]>`
    select ${bounded(sql`sum(bytes) filter (where kind = 'bundle')`)} as "staticBytes",
      ${bounded(sql`sum(bytes) filter (where kind = 'image')`)} as "imageBytes"
    from (
      select kind, max(size_bytes) as bytes from artifact
      where project_id = ${projectId} and digest is not null group by kind, repository, digest
    ) content`.execute(db);
  return rows[0] ?? { staticBytes: 0, imageBytes: 0 };
}
