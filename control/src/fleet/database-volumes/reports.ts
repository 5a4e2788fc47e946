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
  await storeUnknown(db, nodeId, await withoutNew(db, unknown));
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
