import { sql } from "kysely";
import type { Db } from "../db/pool.ts";
import { ApiError } from "../http/errors.ts";
import { enqueue } from "../work/queue.ts";

const wantedStatus = { stop: "running", start: "stopped" } as const;
const unavailable = { stop: "STOP_UNAVAILABLE", start: "START_UNAVAILABLE" } as const;

/**
 * Queues stopping or starting what production serves; asking again while it is queued gives the same work.
 * Needs the project locked. Throws STOP_UNAVAILABLE or START_UNAVAILABLE when there is nothing to do it to.
 */
export async function requestLifecycle(
  tx: Db,
  projectId: string,
  action: "stop" | "start",
): Promise<{ deploymentId: string; workId: number }> {
  const deployment = await tx
    .selectFrom("channel_state")
    .innerJoin("deployment", "deployment.id", "channel_state.deployment_id")
    .select("deployment.id")
    .where("channel_state.project_id", "=", projectId)
    .where("channel_state.channel", "=", "production")
    .where("channel_state.pr_number", "=", 0)
    .where("deployment.status", "=", wantedStatus[action])
    .executeTakeFirst();
  if (deployment === undefined) throw new ApiError(unavailable[action]);
  const payload = { projectId, action, deploymentId: deployment.id };
  // Not the key of deploys: a build of a quarter of an hour must not keep a site up that is to go down.
  const key = `lifecycle/${projectId}`;
  const waiting = await tx
    .selectFrom("work_item")
    .select("id")
    .where("kind", "=", "lifecycle")
    .where("key", "=", key)
    .where("state", "in", ["queued", "running"])
    .where(sql<boolean>`payload = ${JSON.stringify(payload)}::jsonb`)
    .limit(1)
    .executeTakeFirst();
  // What an earlier start said is not what this one will say.
  if (waiting === undefined && action === "start") {
    await tx.updateTable("deployment").set({ error: null }).where("id", "=", deployment.id).execute();
  }
  const workId = waiting?.id ?? (await enqueue(tx, { kind: "lifecycle", key, payload }));
  return { deploymentId: deployment.id, workId };
}
