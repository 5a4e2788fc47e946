import { sql } from "kysely";
import { graceMinutes, loadVolumesOfNodes } from "../../../fleet/database-volumes/facts.ts";
import { volumeName, volumeNamed } from "../../../fleet/database-volumes/rules.ts";
import type { Db } from "../../../stores/db/pool.ts";
import { Refused } from "../../../stores/refused.ts";
import { lockDropped } from "../dropped/store.ts";
import { lockBranch } from "../store.ts";
import type { AskedVolume } from "./rules.ts";
import { inHours } from "./store.ts";

/** A volume by what it is of, with the branch that had it and everything that decides what may become of it. */
export interface FoundVolume {
  volume: AskedVolume;
  nodeId: string;
  databaseId: string;
  projectId: string | null;
}

/**
 * The volume of that name, with the branch that has or had it held until the transaction ends; null when there is none. Throws CONFLICT
 * where names do not tell apart.
 */
export async function lockVolume(tx: Db, name: string): Promise<FoundVolume | null> {
  const named = volumeNamed(name);
  if (named === null) return null;
  const { rows } = await sql<{ id: string; generation: number; database_id: string; node_id: string }>`
    select * from (
      select 'database' as of, database_id as id, generation, database_id, node_id from database_volume
      union all select 'copy', id, 1, database_id, node_id from database_copy) volume
    where of = ${named.of} and replace(id::text, '-', '') like ${`${named.digits}%`} and node_id is not null`.execute(
    tx,
  );
  const found = rows.filter(({ id, generation }) => volumeName({ of: named.of, id, generation }) === name);
  if (found.length > 1) throw new Refused("CONFLICT", "Several volumes have that name.");
  const [row] = found;
  if (row === undefined) return null;
  const { id, generation, database_id: databaseId } = row;
  const holder = await lockHolder(tx, databaseId);
  // Read afresh, now that nobody else decides about it.
  const { rows: now } = await sql<{ node_id: string; is_past: boolean; project_id: string | null }>`
    select node_id, not kept and coalesce(purge_at < now(), false) as is_past, project_id from (
      select 'database' as of, database_id as id, generation, node_id, kept, purge_at, null::uuid as project_id from database_volume
      union all select 'copy', id, 1, node_id, kept, purge_at, project_id from database_copy) volume
    where of = ${named.of} and id = ${id} and generation = ${generation} and node_id is not null`.execute(tx);
  const [place] = now;
  if (place === undefined) return null;
  const known = (await loadVolumesOfNodes(tx, [place.node_id])).get(place.node_id) ?? [];
  const volume = known.find((each) => each.of === named.of && each.id === id && each.generation === generation);
  if (volume === undefined) return null;
  const projectId = holder?.project_id ?? place.project_id;
  return { volume: { ...volume, isPast: place.is_past }, nodeId: place.node_id, databaseId, projectId };
}

/** The branch, or what is known of it once it was dropped: whoever makes one of the other holds it meanwhile. */
const lockHolder = async (tx: Db, databaseId: string): Promise<{ project_id: string } | null> =>
  (await lockBranch(tx, databaseId)) ??
  (await lockDropped(tx, databaseId)) ??
  // It has come back in between.
  (await lockBranch(tx, databaseId));

/** Whether a node tells of a volume of that name that nobody knows. */
export async function isReported(db: Db, name: string): Promise<boolean> {
  const row = await db.selectFrom("unknown_volume").select("name").where("name", "=", name).limit(1).executeTakeFirst();
  return row !== undefined;
}

/** The volume, whose branch the caller has locked, stays until somebody says otherwise. */
export const keepVolume = (tx: Db, volume: AskedVolume): Promise<void> => decide(tx, volume, { kept: true });

/** The volume, whose branch the caller has locked, goes as soon as its node hears of it. */
export const purgeVolume = (tx: Db, volume: AskedVolume): Promise<void> =>
  // Nobody who comes in time is waited for: whoever wanted it would have to hold its branch.
  decide(tx, volume, { kept: false, purge_at: inHours(-graceMinutes / 60) });

async function decide(
  tx: Db,
  { of, id, generation }: AskedVolume,
  set: { kept: boolean; purge_at?: ReturnType<typeof inHours> },
): Promise<void> {
  if (of === "copy") {
    await tx.updateTable("database_copy").set(set).where("id", "=", id).where("state", "=", "ended").execute();
    return;
  }
  await tx
    .updateTable("database_volume")
    .set(set)
    .where("database_id", "=", id)
    .where("generation", "=", generation)
    .where("state", "!=", "current")
    .execute();
}
