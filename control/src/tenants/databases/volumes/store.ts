import { sql } from "kysely";
import type { Db } from "../../../stores/db/pool.ts";

export const inHours = (hours: number) => sql<Date>`clock_timestamp() + ${hours} * interval '1 hour'`;

/** Which volume, and which node has it. */
export interface VolumePlace {
  databaseId: string;
  generation: number;
  nodeId: string;
}

/** The branch, which the caller has locked, has its data in that volume from now on. */
export const placeVolume = async (tx: Db, { databaseId, generation, nodeId }: VolumePlace): Promise<void> =>
  void (await tx
    .insertInto("database_volume")
    .values({ database_id: databaseId, generation, node_id: nodeId })
    .onConflict((conflict) =>
      conflict
        .columns(["database_id", "generation"])
        .doUpdateSet({ node_id: nodeId, state: "current", purge_at: null, kept: false, gone_at: null }),
    )
    .execute());

/**
 * Another volume takes the place of that one, or its branch, which the caller has locked, is dropped. It is kept for so many hours.
 *
 * @param how.bytes what it takes on the disk; null: nobody knows
 */
export const retireVolume = async (
  tx: Db,
  { databaseId, generation, nodeId }: VolumePlace,
  { state, keptHours, bytes }: { state: "salvage" | "dropped"; keptHours: number; bytes: number | null },
): Promise<void> =>
  void (await tx
    .insertInto("database_volume")
    .values({ database_id: databaseId, generation, node_id: nodeId, state, bytes, purge_at: inHours(keptHours) })
    .onConflict((conflict) =>
      conflict
        .columns(["database_id", "generation"])
        .doUpdateSet((set) => ({ state, node_id: nodeId, bytes, purge_at: set.ref("excluded.purge_at") })),
    )
    .execute());

/** Volumes that others took the place of are kept for so many hours at least, unless their time is over: they may be going. */
export const keepVolumes = async (tx: Db, databaseId: string, { keptHours }: { keptHours: number }): Promise<void> =>
  void (await tx
    .updateTable("database_volume")
    .set({ purge_at: sql<Date>`greatest(purge_at, ${inHours(keptHours)})` })
    .where("database_id", "=", databaseId)
    .where("state", "=", "salvage")
    .where("gone_at", "is", null)
    .where("purge_at", ">", sql<Date>`now()`)
    .execute());

/** A volume of a branch, dropped ones included, that a server can have: in its time, and on a machine that is there. Null: it cannot. */
export async function findOwnVolume(
  db: Db,
  { databaseId, generation }: Omit<VolumePlace, "nodeId">,
): Promise<{ nodeId: string; state: "current" | "salvage" | "dropped" } | null> {
  const volume = await db
    .selectFrom("database_volume")
    .innerJoin("node", "node.id", "database_volume.node_id")
    .select(["node.id as nodeId", "database_volume.state"])
    .where("database_id", "=", databaseId)
    .where("generation", "=", generation)
    .where("node.lifecycle", "=", "active")
    .where(isKept)
    .executeTakeFirst();
  return volume ?? null;
}

/** Of a volume or a copy: it is there, and its time is not over. */
export const isKept = sql<boolean>`gone_at is null and (kept or purge_at is null or purge_at > now())`;

/** The branch, which the caller has locked, is dropped, and had no volume by then. */
export const forgetUnplaced = async (tx: Db, databaseId: string): Promise<void> =>
  void (await tx
    .deleteFrom("database_volume")
    .where("database_id", "=", databaseId)
    .where("state", "=", "current")
    .execute());
