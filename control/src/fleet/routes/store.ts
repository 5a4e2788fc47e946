import { sql } from "kysely";
import { notifying } from "../../stores/db/notify.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Deployment } from "../../stores/db/tables.ts";
import { routeTopic } from "../cluster/topics.ts";

export async function findChannelState(
  db: Db,
  deployment: Pick<Deployment, "project_id" | "channel" | "pr_number">,
  { lock = false } = {},
) {
  const row = await db
    .selectFrom("channel_state")
    .selectAll()
    .$if(lock, (query) => query.forUpdate())
    .where("project_id", "=", deployment.project_id)
    .where("channel", "=", deployment.channel)
    .where("pr_number", "=", deployment.pr_number ?? 0)
    .executeTakeFirst();
  return row ?? null;
}

/** Points the channel at a deployment (null: at nothing) and tells the leader. */
export async function setChannelState(
  db: Db,
  deployment: Pick<Deployment, "project_id" | "channel" | "pr_number">,
  state: { deploymentId: string | null; stopped: boolean },
): Promise<void> {
  const values = { deployment_id: state.deploymentId, stopped: state.stopped, changed_at: sql<Date>`now()` };
  await db
    .insertInto("channel_state")
    .values({
      project_id: deployment.project_id,
      channel: deployment.channel,
      pr_number: deployment.pr_number ?? 0,
      ...values,
    })
    .onConflict((conflict) => conflict.columns(["project_id", "channel", "pr_number"]).doUpdateSet(values))
    .returning(notifying(routeTopic, deployment.project_id))
    .execute();
}
