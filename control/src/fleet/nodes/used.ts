import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";

/** Agents tell it every 15 s; what is older says nothing of now. */
const freshSeconds = 60;
const bytesPerMb = 1024 * 1024;

/** What these containers really took when their node said so last; null when it said nothing of late. */
export async function readUsed(
  db: Db,
  placementIds: readonly string[],
  now: Date,
): Promise<{ memoryMb: number; cpuMillicores: number } | null> {
  const { rows } = await sql<{ count: number; memory: number | null; cpu: number | null }>`
    select count(*)::int as count, sum(memory_bytes)::float8 as memory, sum(cpu_percent)::float8 as cpu
    from unnest(${placementIds}::uuid[]) as placed (id), lateral (
      select memory_bytes, cpu_percent from resource_sample
      where task_id = placed.id and at > ${now}::timestamptz - ${freshSeconds} * interval '1 second'
      order by at desc limit 1) as newest`.execute(db);
  const { count = 0, memory = 0, cpu = 0 } = rows[0] ?? {};
  if (count === 0) return null;
  return { memoryMb: Math.round((memory ?? 0) / bytesPerMb), cpuMillicores: Math.round((cpu ?? 0) * 10) };
}
