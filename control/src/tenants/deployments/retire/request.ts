import type { Db } from "../../../stores/db/pool.ts";
import { enqueue } from "../../../stores/work/queue.ts";

/** Ends what a deployment left on nodes as soon as no edge sends visitors there any more. */
export const retire = (db: Db, deploymentId: string) =>
  enqueue(db, { kind: "retire", key: `retire/${deploymentId}`, payload: { deploymentId } });

/** Whether that is still under way. */
export async function isRetiring(db: Db, deploymentId: string): Promise<boolean> {
  const item = await db
    .selectFrom("work_item")
    .select("id")
    .where("key", "=", `retire/${deploymentId}`)
    .where("state", "in", ["queued", "running"])
    .executeTakeFirst();
  return item !== undefined;
}
