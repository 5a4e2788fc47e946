import { channelSubject } from "../../fleet/alerts/raise.ts";
import { findChannelState } from "../../fleet/routes/store.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Deployment } from "../../stores/db/tables.ts";
import { pointChannel } from "./channel.ts";
import { retire } from "./retire/request.ts";
import { listServing, lockServing, moveDeployment } from "./store.ts";

// What a deployment does with its channel, in the caller's transaction.

/**
 * Locks what orders a change of the channel with a stop, a start, a suspension or a deletion of the project. False when
 * the deployment is not to have the channel in this way any more.
 */
export async function lockForChannel(tx: Db, deployment: Deployment, { held }: { held: boolean }): Promise<boolean> {
  const project = await tx
    .selectFrom("project")
    .select(["deleting_at", "suspended_at"])
    .where("id", "=", deployment.project_id)
    .forUpdate()
    .executeTakeFirst();
  if (project === undefined || project.deleting_at !== null || project.suspended_at !== null) return false;
  const asked = await tx
    .selectFrom("deployment")
    .select(["held_at", "cancel_requested_at"])
    .where("id", "=", deployment.id)
    .where("status", "=", "deploying")
    .forUpdate()
    .executeTakeFirst();
  return asked !== undefined && asked.cancel_requested_at === null && (asked.held_at !== null) === held;
}

/** Ends what the channel served before, or would have after a start. */
export async function supersedeOthers(tx: Db, deployment: Deployment): Promise<void> {
  for (const previous of await listServing(tx, deployment)) {
    await moveDeployment(tx, previous.id, {
      from: previous.status,
      to: "superseded",
      phase: "superseded",
      detail: `by ${deployment.id}`,
    });
    await retire(tx, previous.id);
  }
}

/** A deployment that ends badly must not keep the channel: what served before it serves again, or nothing. */
export async function giveChannelBack(tx: Db, deployment: Deployment): Promise<void> {
  const state = await findChannelState(tx, deployment);
  if (state?.deployment_id !== deployment.id) return;
  const [previous] = await lockServing(tx, deployment);
  await pointChannel(tx, deployment, {
    deploymentId: previous?.id ?? null,
    stopped: previous?.status === "stopped",
  });
}

/** What is wrong with the channel of a deployment. */
export const alertOf = <Event extends "deployFailed" | "siteDown">(deployment: Deployment, event: Event) => ({
  projectId: deployment.project_id,
  event,
  subject: channelSubject(deployment.channel, deployment.pr_number),
});
