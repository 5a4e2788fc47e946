import type { Db } from "../../stores/db/pool.ts";

/** Keeps the project from being deleted or suspended until the transaction ends; false when it is already. */
export async function holdActive(tx: Db, projectId: string): Promise<boolean> {
  const project = await tx
    .selectFrom("project")
    .select(["deleting_at", "suspended_at"])
    .where("id", "=", projectId)
    .forShare()
    .executeTakeFirst();
  return project !== undefined && project.deleting_at === null && project.suspended_at === null;
}
