import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import { uuid } from "../../stores/db/uuid.ts";
import { goneTopic } from "../cluster/topics.ts";

export async function announceGone(db: Db, projectId: string): Promise<void> {
  await sql`select pg_notify(${goneTopic}, ${projectId})`.execute(db);
}

/** Those of the projects that are deleted, or being deleted. What is no id of a project is passed over. */
export async function listGone(db: Db, projectIds: readonly string[]): Promise<string[]> {
  const asked = [...new Set(projectIds.filter((id) => uuid.test(id)))];
  if (asked.length === 0) return [];
  const rows = await db
    .selectFrom("project")
    .select("id")
    .where("id", "in", asked)
    .where("deleting_at", "is", null)
    .execute();
  const alive = new Set(rows.map(({ id }) => id));
  return asked.filter((id) => !alive.has(id));
}
