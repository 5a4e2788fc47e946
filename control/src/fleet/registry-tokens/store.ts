import type { Db } from "../../stores/db/pool.ts";
import { specOf, type TaskSpec } from "../tasks/kinds/index.ts";

/** What a task is to do; null when it is gone. */
export async function findSpec(db: Db, taskId: string): Promise<TaskSpec | null> {
  const task = await db.selectFrom("task").select(["kind", "spec"]).where("id", "=", taskId).executeTakeFirst();
  return task === undefined ? null : specOf(task);
}
