import type { Db } from "../../stores/db/pool.ts";
import { specOf, type TaskSpec } from "../tasks/kinds/index.ts";

/** What a task is to do; null when it is gone. */
export async function findSpec(db: Db, taskId: string): Promise<TaskSpec | null> {
  const task = await db.selectFrom("task").select(["kind", "spec"]).where("id", "=", taskId).executeTakeFirst();
  return task === undefined ? null : specOf(task);
}

/** Where in the cluster's registry the image of a deployment is; null when it has none. */
export async function findImageRepository(db: Db, deploymentId: string): Promise<string | null> {
  const deployment = await db
    .selectFrom("deployment")
    .select("artifact_repository")
    .where("id", "=", deploymentId)
    .where("artifact_digest", "is not", null)
    .executeTakeFirst();
  return deployment?.artifact_repository ?? null;
}
