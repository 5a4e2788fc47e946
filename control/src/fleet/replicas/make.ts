import { isOciManifest, type Manifest, storedManifestSchema } from "@svc/proto";
import { holdPlanOfUser } from "../../identity/plans/of-user.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Deployment, DeploymentStatus, Plan } from "../../stores/db/tables.ts";
import { findChannelState } from "../routes/store.ts";
import { removeTasks } from "../tasks/change.ts";
import { type DeploymentAndProject, insertEvent, lockDeployment } from "../tasks/deployment.ts";
import { emptySlots, replicasOf, serveTask } from "../tasks/kinds/serve.ts";
import { insertTask, listWantedTasks } from "../tasks/store.ts";
import type { Abandoned } from "./bring-up.ts";
import { holdActive } from "./hold.ts";
import type { Cause } from "./steps.ts";

/** A deployment that may get containers until the transaction ends, and by what. */
export interface Held {
  deployment: Deployment;
  manifest: Manifest;
  plan: Plan;
}

/** What has to be so for the deployment to get containers. */
interface Wanted {
  status: DeploymentStatus;
  /** What its channel shows: this deployment, the page while this one is stopped, one of these, or another deployment. */
  channel: "it" | "its page" | "it or its page" | "another";
  /** Holds the project and tells whether it is to have any; without it, one that is neither suspended nor being deleted. */
  holdProject?: (tx: Db, projectId: string) => Promise<boolean>;
}

/**
 * Holds what containers of a deployment rest on, in the order user, project, deployment; null when it is to have none. A
 * stop, a suspension, a deletion or another plan that begins meanwhile comes after what this transaction makes, and finds it.
 */
export async function holdToMake(
  tx: Db,
  { deployment, project }: DeploymentAndProject,
  { status, channel, holdProject = holdActive }: Wanted,
): Promise<Held | null> {
  const plan = await holdPlanOfUser(tx, project.owner_id);
  if (!(await holdProject(tx, project.id)) || !(await lockDeployment(tx, deployment.id, status))) return null;
  const state = await findChannelState(tx, deployment);
  const isIts = state?.deployment_id === deployment.id;
  const shows = !isIts ? "another" : state.stopped ? "its page" : "it";
  if (shows !== channel && !(isIts && channel === "it or its page")) return null;
  return { deployment, manifest: storedManifestSchema.parse(deployment.manifest), plan };
}

/** One container for each of these slots. `cause`: why it is made in place of another. */
export async function makeContainers(
  tx: Db,
  { deployment, manifest, plan }: Held,
  slots: readonly number[],
  cause: Cause | null = null,
): Promise<void> {
  const registryHost = isOciManifest(manifest) ? deployment.image_registry : null;
  const task = serveTask(deployment, plan, manifest, registryHost);
  for (const replica of slots) await insertTask(tx, deployment, task, { replica, cause });
}

/** One container for each of these slots that is empty once what is abandoned goes; returns the slots that got one. */
export async function fillSlots(
  tx: Db,
  held: Held,
  { slots, abandoned }: { slots: readonly number[]; abandoned: readonly Abandoned[] },
): Promise<number[]> {
  const { deployment, manifest } = held;
  await removeTasks(
    tx,
    abandoned.map(({ taskId }) => taskId),
  );
  const empty = emptySlots(await listWantedTasks(tx, deployment.id, "serve"), replicasOf(manifest));
  const filled = empty.filter((slot) => slots.includes(slot));
  await makeContainers(tx, held, filled);
  for (const { why } of abandoned) {
    const detail = `${why.replace(/\.$/, "")}; another node takes over`;
    await insertEvent(tx, { deploymentId: deployment.id, phase: "task-abandoned", detail });
  }
  return filled;
}
