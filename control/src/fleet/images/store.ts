import type { Limiter } from "@svc/runtime/limiter";
import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import { repositories } from "../artifacts/repositories.ts";

/** A layer that the project has not used for so long is measured anew when it comes again. */
const forgottenAfterDays = 90;

/** What is remembered of layers: how many bytes they unpack to. */
export interface KnownLayers {
  /** Of those of `digests` that are known. */
  find(digests: readonly string[]): Promise<Map<string, number>>;
  /** `origin` is the place that it was brought from; null: it was there. */
  save(digest: string, unpackedBytes: number, origin: string | null): Promise<void>;
  /** Bounds what is remembered. */
  forgetOld(): Promise<void>;
}

/** Those that a project has had. */
export const knownLayersOf = (db: Db, projectId: string): KnownLayers => ({
  find: (digests) => findLayerSizes(db, projectId, digests),
  save: (digest, unpackedBytes, origin) => saveLayer(db, { projectId, digest, unpackedBytes, origin }),
  forgetOld: () => forgetOldLayers(db, projectId),
});

/** A layer in the repository of another project. */
export interface SharedLayer {
  repository: string;
  unpackedBytes: number;
}

/** What other projects of the same account brought from the same place, whose manifest this one has just read there. */
export interface SharedLayers {
  find(digest: string): Promise<SharedLayer | null>;
  /** Does work for a layer, whose digest is the key, when no other one brings it. */
  alone: Limiter;
}

export const sharedLayersOf = (db: Db, projectId: string, origin: string, alone: Limiter): SharedLayers => ({
  find: (digest) => findSharedLayer(db, { projectId, digest, origin }),
  alone,
});

async function findSharedLayer(
  db: Db,
  { projectId, digest, origin }: { projectId: string; digest: string; origin: string },
): Promise<SharedLayer | null> {
  const row = await db
    .selectFrom("image_layer")
    .innerJoin("project as other", "other.id", "image_layer.project_id")
    .innerJoin("project as own", "own.owner_id", "other.owner_id")
    .select(["image_layer.project_id", "image_layer.unpacked_bytes"])
    .where("own.id", "=", projectId)
    .where("other.id", "!=", projectId)
    .where("other.deleting_at", "is", null)
    .where("image_layer.digest", "=", digest)
    .where("image_layer.origin", "=", origin)
    .orderBy("image_layer.used_at", "desc")
    .limit(1)
    .executeTakeFirst();
  return row === undefined
    ? null
    : { repository: repositories.image(row.project_id), unpackedBytes: row.unpacked_bytes };
}

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

async function saveLayer(
  db: Db,
  { projectId, digest, unpackedBytes, origin }: { projectId: string; digest: string } & Brought,
): Promise<void> {
  const brought = { unpacked_bytes: unpackedBytes, origin };
  await db
    .insertInto("image_layer")
    .values({ project_id: projectId, digest, ...brought })
    .onConflict((conflict) =>
      conflict.columns(["project_id", "digest"]).doUpdateSet({ ...brought, used_at: sql<Date>`now()` }),
    )
    .execute();
}

interface Brought {
  unpackedBytes: number;
  origin: string | null;
}

/** Keeps the table as small as what projects still deploy. */
async function forgetOldLayers(db: Db, projectId: string): Promise<void> {
  await db
    .deleteFrom("image_layer")
    .where("project_id", "=", projectId)
    .where("used_at", "<", sql<Date>`now() - ${forgottenAfterDays} * interval '1 day'`)
    .execute();
}
