import { storedManifestSchema } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import type { Fleet } from "../../../fleet/cluster/fleet.ts";
import { keys, observationValue } from "../../../fleet/cluster/keys.ts";
import { haveEdgesLeft, type IsLeft } from "../../../fleet/routes/left.ts";
import { edgesInRotation } from "../../../fleet/routes/progress.ts";
import { findChannelState } from "../../../fleet/routes/store.ts";
import { removeTasks } from "../../../fleet/tasks/change.ts";
import type { DeploymentAndProject } from "../../../fleet/tasks/deployment.ts";
import { findDeployment } from "../../../fleet/tasks/deployment.ts";
import { drainSecondsIn, drainSecondsLeft } from "../../../fleet/tasks/drain.ts";
import { endRuns } from "../../../fleet/tasks/runs.ts";
import { listTasks } from "../../../fleet/tasks/store.ts";
import { planOfUser } from "../../../identity/plans/of-user.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Task } from "../../../stores/db/tables.ts";
import type { Etcd } from "../../../stores/etcd/index.ts";
import type { WorkOutcome } from "../../../stores/work/queue.ts";
import { recheckAfterMs } from "../../../stores/work/recheck.ts";
import type { WorkHandler } from "../../../stores/work/worker.ts";
import { listNames } from "../../hosts/hosts.ts";
import { drainedForMs } from "./drained.ts";

export interface RetireDeps {
  clock: Clock;
  db: Db;
  etcd: Etcd;
  fleet: Fleet;
  /** How long requests that are under way may still take once no edge sends new ones. */
  drainMs: number;
}

/**
 * Work of kind `retire`: takes back the release attempts of a deployment whose way is over, and removes the
 * containers of one that serves no more. It waits until the published table names none of them, every edge in rotation
 * has that table, and usual requests have drained; what is open then has on its node the time that its manifest gives.
 */
export function retireWorker(deps: RetireDeps): WorkHandler {
  const { db, drainMs } = deps;
  return async (item) => {
    const { deploymentId } = item.payload as { deploymentId: string };
    const found = await findDeployment(db, deploymentId);
    const runsEnded = await endRuns(deps, (run) => run.ownerId === deploymentId);
    // An edge or a node may be away for long, and thousands of these must not look all the time.
    const recheckMs = recheckAfterMs(item.ageMs);
    const ended: WorkOutcome = runsEnded ? { state: "done" } : { retryAfterMs: recheckMs, refund: true };
    if (found === null) return ended;
    const state = await findChannelState(db, found.deployment);
    const serves = state?.deployment_id === deploymentId && !state.stopped;
    const tasks = (await listTasks(db, deploymentId)).filter((task) => task.desired !== "removed");
    // Builds serve nobody.
    await removeTasks(
      db,
      tasks.filter((task) => task.kind === "build").map((task) => task.id),
    );
    const serving = tasks.filter((task) => task.kind === "serve");
    if (serves || serving.length === 0) return ended;
    const hosts = await listNames(db, found.deployment);
    const upstreams = await readUpstreams(deps, serving);
    // A container that is down for a moment has no address, and comes back where it was: the route is known by its deployment.
    const isLeft: IsLeft = (route) =>
      route?.proxy === undefined ||
      (route.deploymentId !== deploymentId && !route.proxy.upstreams.some((each) => upstreams.has(each)));
    if (!(await haveEdgesLeft({ ...deps, edges: () => edgesInRotation(db) }, hosts, isLeft)))
      return { retryAfterMs: recheckMs, refund: true };
    const leftMs = upstreams.size === 0 ? 0 : drainMs - (await drainedForMs(db, item.id));
    if (leftMs > 0) return { retryAfterMs: Math.min(leftMs, recheckMs), refund: true };
    await db.transaction().execute(async (tx) => {
      const drainSeconds = await holdDrain(tx, found, upstreams.size === 0 ? 0 : drainMs);
      await removeTasks(
        tx,
        serving.map((task) => task.id),
        { drainSeconds },
      );
    });
    return ended;
  };
}

/** What `drainSecondsLeft` says, and nobody stops, suspends or deletes what it rests on until the transaction ends. */
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

/** Where the containers of tasks are reached, by what etcd itself knows. */
async function readUpstreams(
  { etcd, fleet }: Pick<RetireDeps, "etcd" | "fleet">,
  tasks: readonly Pick<Task, "id" | "node_id">[],
): Promise<Set<string>> {
  const found = await Promise.all(
    tasks.map(async ({ id, node_id }) => {
      const nodeId = node_id ?? fleet.findPlacement(id)?.nodeId;
      const entry = nodeId === undefined ? null : await etcd.get(keys.observation(nodeId, id));
      return entry === null ? null : observationValue.parse(JSON.parse(entry.value)).upstream;
    }),
  );
  return new Set(found.filter((upstream) => upstream !== null));
}
