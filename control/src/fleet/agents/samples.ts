import type { Sample } from "@svc/proto/node";
import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import { uuid } from "../../stores/db/uuid.ts";

const maxAgeMs = 3_600_000;
const maxAheadMs = 60_000;
const maxInt = 2_147_483_647;

/** Samples that can be true: a known time, finite numbers. The others are dropped. */
export function plausibleSamples(samples: readonly Sample[], now: Date): Sample[] {
  return samples.filter(({ at, cpuPercent, memoryBytes, pids }) => {
    const age = now.getTime() - new Date(at).getTime();
    return (
      age <= maxAgeMs &&
      age >= -maxAheadMs &&
      Number.isFinite(cpuPercent) &&
      cpuPercent >= 0 &&
      memoryBytes <= BigInt(Number.MAX_SAFE_INTEGER) &&
      pids <= maxInt
    );
  });
}

/**
 * Stores samples of tasks that are on the node; others, and repeated ones, are passed over. The tasks are held
 * meanwhile, so that none is deleted without what is written here. Returns how many are new.
 */
export async function insertSamples(db: Db, nodeId: string, samples: readonly Sample[]): Promise<number> {
  const own = samples.filter(({ placementId }) => uuid.test(placementId));
  if (own.length === 0) return 0;
  const { rows } = await sql`
    insert into resource_sample (task_id, project_id, at, cpu_percent, memory_bytes, pids)
    select task.id, task.project_id, s.at, s.cpu, s.memory, s.pids
    from unnest(
      ${own.map(({ placementId }) => placementId)}::uuid[],
      ${own.map(({ at }) => at)}::timestamptz[],
      ${own.map(({ cpuPercent }) => cpuPercent)}::real[],
      ${own.map(({ memoryBytes }) => String(memoryBytes))}::bigint[],
      ${own.map(({ pids }) => pids)}::integer[]) as s (task_id, at, cpu, memory, pids)
    join task on task.id = s.task_id and task.node_id = ${nodeId}
    order by task.epoch for key share of task
    on conflict do nothing
    returning 1`.execute(db);
  return rows.length;
}
