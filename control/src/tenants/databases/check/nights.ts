import { sql } from "kysely";
import { enqueueChecks } from "../../../fleet/databases/checks.ts";
import type { Db } from "../../../stores/db/pool.ts";
import { lastNight } from "../last-night.ts";

/** Looked at per round; the rest has its turn in the next. */
const roundMax = 2_000;

/**
 * Has every branch looked at that can be used and was not since the night began: also after a night in which control was down, and
 * again if its server did not answer. Returns how many.
 */
export async function enqueueNightly(db: Db): Promise<number> {
  const due = await db
    .selectFrom("database")
    .innerJoin("project", "project.id", "database.project_id")
    .select("database.id")
    .where("database.status", "=", "ready")
    .where("project.suspended_at", "is", null)
    .where((where) =>
      where.not(
        where.exists(
          where
            .selectFrom("database_sample")
            .select("sampled_at")
            .whereRef("database_id", "=", "database.id")
            .where("sampled_at", ">=", lastNight),
        ),
      ),
    )
    .orderBy("database.id")
    .limit(roundMax)
    .execute();
  return enqueueChecks(
    db,
    due.map(({ id }) => id),
  );
}

/**
 * Has every read-only branch looked at that sessions may write to in spite of it, as far as anybody knows. Returns how many.
 */
export async function enqueueSoft(db: Db): Promise<number> {
  const soft = await db
    .selectFrom("database")
    .select("id")
    .where("status", "=", "ready")
    .where("read_only", "=", true)
    .where(sql<boolean>`read_only_soft is distinct from false`)
    .orderBy("id")
    .limit(roundMax)
    .execute();
  return enqueueChecks(
    db,
    soft.map(({ id }) => id),
  );
}

/** Whether the branch has no sample since the night began. */
export async function isDueTonight(db: Db, databaseId: string): Promise<boolean> {
  const sampled = await db
    .selectFrom("database_sample")
    .select("sampled_at")
    .where("database_id", "=", databaseId)
    .where("sampled_at", ">=", lastNight)
    .limit(1)
    .executeTakeFirst();
  return sampled === undefined;
}
