import { sql } from "kysely";
import type { Db } from "../../db/pool.ts";

/** A layer that the project has not used for so long is measured anew when it comes again. */
const forgottenAfterDays = 90;

/** What is remembered of layers: how many bytes they unpack to. */
export interface LayerSizes {
  /** Of those of `digests` that are known. */
  find(digests: readonly string[]): Promise<Map<string, number>>;
  save(digest: string, unpackedBytes: number): Promise<void>;
  /** Bounds what is remembered. */
  forgetOld(): Promise<void>;
}

/** Those that a project has had. */
export const layerSizesOf = (db: Db, projectId: string): LayerSizes => ({
  find: (digests) => findLayerSizes(db, projectId, digests),
  save: (digest, unpackedBytes) => saveLayerSize(db, projectId, digest, unpackedBytes),
  forgetOld: () => forgetOldLayers(db, projectId),
});

async function findLayerSizes(db: Db, projectId: string, digests: readonly string[]): Promise<Map<string, number>> {
  if (digests.length === 0) return new Map();
  const rows = await db
    .updateTable("image_layer")
    .set({ used_at: sql<Date>`now()` })
    .where("project_id", "=", projectId)
    .where("digest", "in", [...digests])
    .returning(["digest", "unpacked_bytes"])
    .execute();
  return new Map(rows.map((row) => [row.digest, row.unpacked_bytes]));
}

async function saveLayerSize(db: Db, projectId: string, digest: string, unpackedBytes: number): Promise<void> {
  await db
    .insertInto("image_layer")
    .values({ project_id: projectId, digest, unpacked_bytes: unpackedBytes })
    .onConflict((conflict) =>
      conflict
        .columns(["project_id", "digest"])
        .doUpdateSet({ unpacked_bytes: unpackedBytes, used_at: sql<Date>`now()` }),
    )
    .execute();
}

/** Keeps the table as small as what projects still deploy. */
async function forgetOldLayers(db: Db, projectId: string): Promise<void> {
  await db
    .deleteFrom("image_layer")
    .where("project_id", "=", projectId)
    .where("used_at", "<", sql<Date>`now() - ${forgottenAfterDays} * interval '1 day'`)
    .execute();
}
