import { sql } from "kysely";
import type { Db } from "../../db/pool.ts";

/** A layer that the project has not used for so long is measured anew when it comes again. */
const forgottenAfterDays = 90;

/** How many bytes those of `digests` unpack to that the project has had before. */
export async function findLayerSizes(
  db: Db,
  projectId: string,
  digests: readonly string[],
): Promise<Map<string, number>> {
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

export async function saveLayerSize(db: Db, projectId: string, digest: string, unpackedBytes: number): Promise<void> {
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
export async function forgetOldLayers(db: Db, projectId: string): Promise<void> {
  await db
    .deleteFrom("image_layer")
    .where("project_id", "=", projectId)
    .where("used_at", "<", sql<Date>`now() - ${forgottenAfterDays} * interval '1 day'`)
    .execute();
}
