import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";

export interface SavedQuery {
  id: string;
  name: string;
  sql: string;
  created_at: Date;
  updated_at: Date;
}

const columns = ["id", "name", "sql", "created_at", "updated_at"] as const;

/** By name, whatever the language of the database's own texts. */
export const listSavedQueries = (db: Db, projectId: string): Promise<SavedQuery[]> =>
  db
    .selectFrom("saved_query")
    .select(columns)
    .where("project_id", "=", projectId)
    .orderBy(sql`lower(name) collate "C"`)
    .orderBy(sql`name collate "C"`)
    .execute();

/** Exact while the project is locked. */
export async function countSavedQueries(db: Db, projectId: string): Promise<number> {
  const { count } = await db
    .selectFrom("saved_query")
    .select((query) => query.fn.countAll<number>().as("count"))
    .where("project_id", "=", projectId)
    .executeTakeFirstOrThrow();
  return count;
}

/** Null when the project has one of that name. */
export async function insertSavedQuery(
  tx: Db,
  values: { id: string; project_id: string; name: string; sql: string },
): Promise<SavedQuery | null> {
  const row = await tx
    .insertInto("saved_query")
    .values(values)
    .onConflict((conflict) => conflict.columns(["project_id", "name"]).doNothing())
    .returning(columns)
    .executeTakeFirst();
  return row ?? null;
}

/** Whether there was one to delete. */
export async function deleteSavedQuery(tx: Db, projectId: string, id: string): Promise<boolean> {
  const { numDeletedRows } = await tx
    .deleteFrom("saved_query")
    .where("id", "=", id)
    .where("project_id", "=", projectId)
    .executeTakeFirst();
  return numDeletedRows === 1n;
}
