import { openStatuses } from "@svc/proto";
import { sql } from "kysely";
import { routeTopic } from "../../../fleet/cluster/topics.ts";
import { findChannelState } from "../../../fleet/routes/store.ts";
import { endDrains } from "../../../fleet/tasks/change.ts";
import { insertEvent } from "../../../fleet/tasks/deployment.ts";
import { listTasks } from "../../../fleet/tasks/store.ts";
import { notify } from "../../../stores/db/notify.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Deployment } from "../../../stores/db/tables.ts";
import { enqueue } from "../../../stores/work/queue.ts";
import { listNames } from "../../hosts/hosts.ts";
import { pointChannel } from "../channel.ts";
import { moveDeployment } from "../store.ts";

/** What the work knows of the removal that it carries out. */
export interface Removal {
  deploymentId: string;
  /** Names at which visitors may still reach its containers until the edges have followed; empty when there are none. */
  hosts: string[];
}

type Place = Pick<Deployment, "project_id" | "channel" | "pr_number">;

/**
 * Takes a deployment out of its channel at once and queues the rest of its removal. A preview or dev channel that has
 * nothing else gives up its names, too. Needs the project and the deployment's row locked; once is enough, and a
 * second time does nothing. `why` is for the timeline.
 */
export async function requestRemoval(tx: Db, deployment: Deployment, why: string): Promise<void> {
  const { id, status, removing_at } = deployment;
  if (removing_at !== null) return;
  const state = await findChannelState(tx, deployment);
  const serves = state?.deployment_id === id;
  const leftTasks = (await listTasks(tx, id)).some((task) => task.kind === "serve" && task.desired !== "removed");
  const hosts = serves || leftTasks ? await listNames(tx, deployment) : [];
  await tx.updateTable("deployment").set({ removing_at: sql<Date>`now()` }).where("id", "=", id).execute();
  // Nobody may give the channel back to it, as a deployment does that fails after it.
  if (status === "running" || status === "stopped")
    await moveDeployment(
      tx,
      id,
      { from: status, to: "superseded", phase: "removing", detail: why },
      { error: `Deleted: ${why}.` },
    );
  else await insertEvent(tx, { deploymentId: id, phase: "removing", detail: why });
  if (serves) {
    await pointChannel(tx, deployment, { deploymentId: null, stopped: false });
    await endDrains(tx, { projectIds: [deployment.project_id], channel: deployment });
  }
  if (deployment.channel !== "production" && !(await isInUse(tx, deployment))) await releaseChannel(tx, deployment);
  const payload: Removal = { deploymentId: id, hosts };
  await enqueue(tx, { kind: "remove", key: `remove/${id}`, payload });
}

/** Whether some deployment of the channel serves, or is on its way to. */
export async function isInUse(tx: Db, place: Place): Promise<boolean> {
  const other = await tx
    .selectFrom("deployment")
    .select("id")
    .where("project_id", "=", place.project_id)
    .where("channel", "=", place.channel)
    .where("pr_number", "is not distinct from", place.pr_number)
    .where("status", "in", [...openStatuses, "running", "stopped"])
    .limit(1)
    .executeTakeFirst();
  return other !== undefined;
}

/**
 * Gives up every name of a channel that is made of a slug; anybody may have them then, and the edges answer 404. Domains that
 * lead to the channel wait for its next deployment. Needs the project locked.
 */
export async function releaseChannel(tx: Db, place: Place): Promise<void> {
  await tx
    .deleteFrom("site_host")
    .where("project_id", "=", place.project_id)
    .where("domain_id", "is", null)
    .where("channel", "=", place.channel)
    .where("pr_number", "is not distinct from", place.pr_number)
    .execute();
  await tx
    .deleteFrom("channel_state")
    .where("project_id", "=", place.project_id)
    .where("channel", "=", place.channel)
    .where("pr_number", "=", place.pr_number ?? 0)
    .execute();
  await notify(tx, routeTopic, place.project_id);
}
