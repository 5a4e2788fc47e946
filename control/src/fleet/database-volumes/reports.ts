import { databaseVolume } from "@svc/proto";
import { sql } from "kysely";
import type { Log } from "../../log.ts";
import type { Db } from "../../stores/db/pool.ts";
import { loadVolumesOfNodes } from "./facts.ts";
import { isVolumeName, type KnownVolume, volumeNews } from "./rules.ts";

/** Volumes that a node may tell of at once. */
export const reportedVolumesMax = 20_000;

/** Takes a node's whole word on its volumes: which are gone or there again, and which nobody knows. */
export async function storeVolumeReport(
  { db, log }: { db: Db; log: Log },
  nodeId: string,
  names: readonly string[],
): Promise<void> {
  const known = (await loadVolumesOfNodes(db, [nodeId])).get(nodeId) ?? [];
  const { gone, back, unknown } = volumeNews(names.filter(isVolumeName), known);
  await setGone(db, nodeId, gone, true);
  await setGone(db, nodeId, back, false);
  for (const { of, id, generation } of gone) log.info({ nodeId, of, id, generation }, "volume of a database is gone");
  for (const { of, id, generation } of back) log.warn({ nodeId, of, id, generation }, "a volume that was gone is back");
  const returned = await adoptReturned(db, nodeId, unknown);
  for (const name of returned) log.info({ nodeId, name }, "a volume of a machine that was lost is back");
  const strange = unknown.filter((name) => !returned.includes(name));
  await storeUnknown(db, nodeId, await withoutNew(db, strange));
}

/**
 * Of names that nobody knows of the node, those of volumes whose machine was declared lost: it is back, under another id, and they are
 * this node's from now on. What a branch has its data in stays where the branch is until an operator says otherwise.
 */
async function adoptReturned(db: Db, nodeId: string, names: readonly string[]): Promise<string[]> {
  if (names.length === 0) return [];
  const isLost = sql<boolean>`exists (select from node where node.id = volume.node_id and node.lifecycle <> 'active')`;
  const digits = (id: string) => sql`left(replace(${sql.ref(id)}::text, '-', ''), 16)`;
  const { rows } = await sql<{ name: string }>`
    with told as (select unnest(${[...names]}::text[]) as name),
    volumes as (
      update database_volume volume set node_id = ${nodeId}, gone_at = null from told
      where told.name = 'svc-db-' || ${digits("volume.database_id")}
          || case when volume.generation > 1 then '-' || volume.generation else '' end and ${isLost}
      returning told.name),
    copies as (
      update database_copy volume set node_id = ${nodeId}, gone_at = null from told
      where told.name = 'svc-dbcopy-' || ${digits("volume.id")} and volume.state = 'ended' and ${isLost}
      returning told.name)
    select name from volumes union all select name from copies`.execute(db);
  return rows.map(({ name }) => name);
}

async function setGone(db: Db, nodeId: string, volumes: readonly KnownVolume[], isGone: boolean): Promise<void> {
  const [ofCopies, ofBranches] = [volumes.filter(({ of }) => of === "copy"), volumes.filter(({ of }) => of !== "copy")];
  const goneAt = isGone ? sql<Date>`now()` : sql<null>`null`;
  // What became of a volume since it was looked at counts: it may be another node's by now.
  if (ofBranches.length > 0) {
    await sql`update database_volume volume set gone_at = ${goneAt}
      from unnest(${ofBranches.map(({ id }) => id)}::uuid[], ${ofBranches.map(({ generation }) => generation)}::integer[])
        as told (id, generation)
      where volume.database_id = told.id and volume.generation = told.generation and volume.node_id = ${nodeId}
        and volume.state <> 'current'`.execute(db);
  }
  if (ofCopies.length > 0) {
    await sql`update database_copy set gone_at = ${goneAt}
      where id = any(${ofCopies.map(({ id }) => id)}::uuid[]) and node_id = ${nodeId} and state = 'ended'`.execute(db);
  }
}

/** Without the volumes of branches that are being made: which node has those is noted after they are there. */
async function withoutNew(db: Db, names: readonly string[]): Promise<string[]> {
  if (names.length === 0) return [];
  const unplaced = await db.selectFrom("database").select(["id", "generation"]).where("node_id", "is", null).execute();
  const own = new Set(unplaced.map(({ id, generation }) => databaseVolume(id, generation)));
  return names.filter((name) => !own.has(name));
}

async function storeUnknown(db: Db, nodeId: string, names: readonly string[]): Promise<void> {
  await sql`delete from unknown_volume where node_id = ${nodeId} and name <> all(${[...names]}::text[])`.execute(db);
  if (names.length === 0) return;
  await sql`insert into unknown_volume (node_id, name) select ${nodeId}, name from unnest(${[...names]}::text[]) as told (name)
    order by name on conflict do nothing`.execute(db);
}
