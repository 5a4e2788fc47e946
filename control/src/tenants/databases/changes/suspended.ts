import type { Db } from "../../../stores/db/pool.ts";

/** Whether the project is off the air, or on its way there, and nobody brings it back. */
export async function isSuspended(db: Db, projectId: string): Promise<boolean> {
  const project = await db
    .selectFrom("project")
    .select(["suspended_at", "resuming_at"])
    .where("id", "=", projectId)
    .executeTakeFirst();
  return project !== undefined && project.suspended_at !== null && project.resuming_at === null;
}
