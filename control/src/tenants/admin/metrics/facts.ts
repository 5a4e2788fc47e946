import { sql } from "kysely";
import type { Db } from "../../../stores/db/pool.ts";

/** What the gauges of the fleet show and only Postgres knows. */
export interface StoredFacts {
  work: { kind: string; state: "queued" | "running" | "failed"; count: number; oldestSeconds: number }[];
  waiting: number;
  refused: { reason: string; count: number }[];
  certificates: { role: "node" | "edge"; daysLeft: number }[];
  diskFull: number;
  memoryShort: number;
}

const reasonsMax = 30;

/** Four short statements over indexed or small tables. */
export async function readStoredFacts(db: Db): Promise<StoredFacts> {
  const work = await sql<StoredFacts["work"][number]>`
    select kind, state, count(*)::int as count,
      coalesce(max(extract(epoch from now() - run_at)) filter (where state = 'queued' and run_at <= now()), 0)::float8
        as "oldestSeconds"
    from work_item where state != 'done' group by kind, state`.execute(db);
  const waiting = await sql<{ count: number }>`
    select count(*)::int as count from task
    where desired = 'running' and node_id is null and reaped_at is null`.execute(db);
  const refused = await sql<StoredFacts["refused"][number]>`
    select reason, count(*)::int as count from task, jsonb_object_keys(coalesce(refused, '{}'::jsonb)) as reason
    where desired = 'running' and node_id is null and reaped_at is null
    group by reason order by count desc limit ${reasonsMax}`.execute(db);
  const machines = await sql<{ role: "node" | "edge"; daysLeft: number | null; diskFull: number; memoryShort: number }>`
    select role, (min(extract(epoch from certificate_expires_at - now())) / 86400)::float8 as "daysLeft",
      (count(*) filter (where disk_full))::int as "diskFull",
      (count(*) filter (where memory_short))::int as "memoryShort"
    from node where lifecycle = 'active' group by role`.execute(db);
  return {
    work: work.rows,
    waiting: waiting.rows[0]?.count ?? 0,
    refused: refused.rows,
    certificates: machines.rows.flatMap(({ role, daysLeft }) => (daysLeft === null ? [] : [{ role, daysLeft }])),
    diskFull: machines.rows.reduce((sum, { diskFull }) => sum + diskFull, 0),
    memoryShort: machines.rows.reduce((sum, { memoryShort }) => sum + memoryShort, 0),
  };
}
