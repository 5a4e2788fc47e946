import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import type { KnownVolume } from "./rules.ts";

interface Row {
  at_node: string;
  of: KnownVolume["of"];
  id: string;
  generation: number;
  is_over: boolean;
  is_due: boolean;
  is_current: boolean;
  is_changing: boolean;
  is_used: boolean;
  is_gone: boolean;
}

/** Whoever found a volume in its time, to bring it back or to restore from it, has said so by then. */
export const graceMinutes = 10;

/** All volumes that are known of each of the nodes. One query for all of them, however many there are. */
export async function loadVolumesOfNodes(
  db: Db,
  nodeIds: readonly string[],
): Promise<ReadonlyMap<string, KnownVolume[]>> {
  const isPast = sql<boolean>`coalesce(
    not kept and purge_at < now() - ${graceMinutes} * interval '1 minute', false)`;
  const { rows } = await sql<Row>`
    select volume.node_id as at_node, 'database' as of, volume.database_id as id, volume.generation,
      volume.state <> 'current' as is_over, ${isPast} as is_due, volume.gone_at is not null as is_gone,
      exists (
        select from database where id = volume.database_id and database.generation = volume.generation) as is_current,
      exists (
        select from database_change where database_id = volume.database_id and ended_at is null) as is_changing,
      exists (
        select from task where owner_id = volume.database_id and kind = 'database' and reaped_at is null
          and coalesce((spec ->> 'generation')::integer, 1) = volume.generation) as is_used
    from database_volume volume where node_id = any(${[...nodeIds]}::uuid[])
    union all
    select copy.node_id, 'copy', copy.id, 1, copy.state = 'ended', ${isPast}, copy.gone_at is not null, false,
      exists (select from database_change where copy_id = copy.id and ended_at is null),
      exists (select from task where owner_id = copy.id and reaped_at is null)
        or exists (
          select from task where owner_id = copy.database_id and kind = 'database' and reaped_at is null
            and spec -> 'restore' ->> 'copyId' = copy.id::text)
        -- It is being brought here.
        or (copy.fetched_from is not null and copy.covered_at is null and copy.problem is null)
    from database_copy copy where node_id = any(${[...nodeIds]}::uuid[])`.execute(db);
  const found = Map.groupBy(rows, ({ at_node }) => at_node);
  return new Map([...found].map(([nodeId, own]) => [nodeId, own.map(volumeOf)]));
}

const volumeOf = (row: Row): KnownVolume => ({
  ...{ of: row.of, id: row.id, generation: row.generation, isOver: row.is_over, isDue: row.is_due },
  ...{ isCurrent: row.is_current, isChanging: row.is_changing, isUsed: row.is_used, isGone: row.is_gone },
});
