import type { DeploymentStatus } from "@svc/proto";
import { sql } from "kysely";
import type { Db } from "../../../stores/db/pool.ts";
import { Refused } from "../../../stores/refused.ts";
import { enqueue } from "../../../stores/work/queue.ts";
import { holdOpen, letOpenServe } from "./hold.ts";

const wantedStatus = { stop: "running", start: "stopped" } as const satisfies Record<string, DeploymentStatus>;
const unavailable = { stop: "STOP_UNAVAILABLE", start: "START_UNAVAILABLE" } as const;

/** Not the key of deploys: a build of a quarter of an hour must not keep a site up that is to go down. */
const keyOf = (projectId: string) => `lifecycle/${projectId}`;

/**
 * Queues stopping or starting what production serves, and has what is on its way there wait for a start, or not wait
 * any more; asking again while it is queued gives the same work, unless that has failed by now. Needs the project locked. Throws STOP_UNAVAILABLE or
 * START_UNAVAILABLE when there is nothing to do it to.
 */
export async function requestLifecycle(
  tx: Db,
  projectId: string,
  action: "stop" | "start",
): Promise<{ deploymentId: string; workId: number; warnings?: string[] }> {
  const deployment = await tx
    .selectFrom("channel_state")
    .innerJoin("deployment", "deployment.id", "channel_state.deployment_id")
    .select(["deployment.id", "deployment.error"])
    .where("channel_state.project_id", "=", projectId)
    .where("channel_state.channel", "=", "production")
    .where("channel_state.pr_number", "=", 0)
    .where((where) =>
      where.or([
        where("deployment.status", "=", wantedStatus[action]),
        // It takes the traffic over at this moment, and is stopped once it has.
        ...(action === "stop"
          ? [
              sql<boolean>`deployment.status = 'deploying' and exists (
              select from deployment other where other.project_id = ${projectId}
                and other.channel = 'production' and other.status = 'running')`,
            ]
          : []),
      ]),
    )
    .executeTakeFirst();
  if (deployment === undefined) throw new Refused(unavailable[action]);
  const warnings = await warnOfOpen(tx, projectId, action);
  const payload = { projectId, action, deploymentId: deployment.id };
  const key = keyOf(projectId);
  // Work on a start that has come to nothing ends by what it says, and does nothing any more.
  const isOver = action === "start" && deployment.error !== null;
  const waiting = isOver ? null : await findWaiting(tx, key, payload);
  // What an earlier start said is not what this one will say.
  if (waiting === null && action === "start") {
    await tx.updateTable("deployment").set({ error: null, held_at: null }).where("id", "=", deployment.id).execute();
  }
  const workId = waiting ?? (await enqueue(tx, { kind: "lifecycle", key, payload }));
  return { deploymentId: deployment.id, workId, ...(warnings.length > 0 && { warnings }) };
}

/** The id of the work that does it, and has not ended. */
async function findWaiting(tx: Db, key: string, payload: object): Promise<number | null> {
  const work = await tx
    .selectFrom("work_item")
    .select("id")
    .where("kind", "=", "lifecycle")
    .where("key", "=", key)
    .where("state", "in", ["queued", "running"])
    .where(sql<boolean>`payload = ${JSON.stringify(payload)}::jsonb`)
    .limit(1)
    .executeTakeFirst();
  return work?.id ?? null;
}

async function warnOfOpen(tx: Db, projectId: string, action: "stop" | "start"): Promise<string[]> {
  const ids = await (action === "stop" ? holdOpen(tx, projectId) : letOpenServe(tx, projectId));
  return ids.map((id) =>
    action === "stop"
      ? `Deployment ${id} is on its way: it will be made ready, and serves after a start.`
      : `Deployment ${id} is on its way: it serves once it is ready.`,
  );
}

/** What to say to whoever deploys to production while it is stopped, or is about to be; null when it is neither. */
export async function stoppedWarning(tx: Db, projectId: string): Promise<string | null> {
  const state = await tx
    .selectFrom("channel_state")
    .select("stopped")
    .where("project_id", "=", projectId)
    .where("channel", "=", "production")
    .where("pr_number", "=", 0)
    .executeTakeFirst();
  const isStopped = state?.stopped === true || (await isStopOpen(tx, projectId));
  return isStopped ? "Production is stopped. Once this deployment is ready it serves again." : null;
}

/** Whether the last of what was asked for, and is not done yet, is a stop. */
async function isStopOpen(tx: Db, projectId: string): Promise<boolean> {
  const last = await tx
    .selectFrom("work_item")
    .select(sql<string>`payload ->> 'action'`.as("action"))
    .where("key", "=", keyOf(projectId))
    .where("kind", "=", "lifecycle")
    .where("state", "in", ["queued", "running"])
    .orderBy("id", "desc")
    .limit(1)
    .executeTakeFirst();
  return last?.action === "stop";
}
