import { storedManifestSchema } from "@svc/proto";
import { edgesInRotation } from "../../../fleet/routes/progress.ts";
import { findChannelState } from "../../../fleet/routes/store.ts";
import { removeTasks } from "../../../fleet/tasks/change.ts";
import { type DeploymentAndProject, findDeployment } from "../../../fleet/tasks/deployment.ts";
import { drainSecondsIn, drainSecondsLeft } from "../../../fleet/tasks/drain.ts";
import { listTasks } from "../../../fleet/tasks/store.ts";
import { planOfUser } from "../../../identity/plans/of-user.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Task } from "../../../stores/db/tables.ts";
import { listNames } from "../../hosts/hosts.ts";
import { drainedForMs } from "./drained.ts";

/** What a deployment has on nodes, and is not to go yet. */
export interface RetiringRow {
  /** Its channel shows it. */
  serves: boolean;
  builds: readonly string[];
  containers: readonly Pick<Task, "id" | "node_id">[];
  /** Names at which visitors may still reach its channel; nobody asks while it serves, or without containers. */
  hosts: readonly string[];
}

/** What ends of deployments ask of Postgres. */
export interface RetireRows {
  /** Null: it is gone. */
  find(deploymentId: string): Promise<RetiringRow | null>;
  /** Edges that visitors may reach. */
  edges(): Promise<string[]>;
  /** Tasks that serve nobody go at once. */
  remove(taskIds: readonly string[]): Promise<void>;
  /** Milliseconds since the item first asked that, by the database's clock. */
  drainedForMs(itemId: number): Promise<number>;
  /**
   * Containers go, and may serve what is open for as long as `drainSecondsLeft` says at this moment: `waitedMs` of it are over
   * already. Nobody stops, suspends or deletes meanwhile what that rests on.
   */
  drain(deploymentId: string, taskIds: readonly string[], waitedMs: number): Promise<void>;
}

export const retireRows = (db: Db): RetireRows => ({
  async find(deploymentId) {
    const found = await findDeployment(db, deploymentId);
    if (found === null) return null;
    const state = await findChannelState(db, found.deployment);
    const tasks = (await listTasks(db, deploymentId)).filter((task) => task.desired !== "removed");
    const serves = state?.deployment_id === deploymentId && !state.stopped;
    const builds = tasks.flatMap(({ id, kind }) => (kind === "build" ? [id] : []));
    const containers = tasks.filter(({ kind }) => kind === "serve");
    const isLeaving = !serves && containers.length > 0;
    return { serves, builds, containers, hosts: isLeaving ? await listNames(db, found.deployment) : [] };
  },

  edges: () => edgesInRotation(db),
  remove: (taskIds) => removeTasks(db, taskIds),
  drainedForMs: (itemId) => drainedForMs(db, itemId),

  drain: (deploymentId, taskIds, waitedMs) =>
    db.transaction().execute(async (tx) => {
      const found = await findDeployment(tx, deploymentId);
      const drainSeconds = found === null ? 0 : await holdDrain(tx, found, waitedMs);
      await removeTasks(tx, taskIds, { drainSeconds });
    }),
});

async function holdDrain(tx: Db, { deployment, project }: DeploymentAndProject, waitedMs: number): Promise<number> {
  const held = await tx
    .selectFrom("project")
    .select(["suspended_at", "deleting_at"])
    .where("id", "=", project.id)
    .forShare()
    .executeTakeFirst();
  const state = await findChannelState(tx, deployment, { lock: true });
  const isServed = state !== null && state.deployment_id !== null;
  return drainSecondsLeft({
    status: deployment.status,
    projectIsOff: held === undefined || held.suspended_at !== null || held.deleting_at !== null,
    channel: !isServed ? "empty" : state.stopped ? "stopped" : "serves",
    drainSeconds: drainSecondsIn(
      storedManifestSchema.parse(deployment.manifest),
      await planOfUser(tx, project.owner_id),
    ),
    waitedMs,
  });
}
