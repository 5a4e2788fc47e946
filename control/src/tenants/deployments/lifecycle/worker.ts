import { storedManifestSchema } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import { createWake } from "@svc/runtime/wake";
import type { Fleet } from "../../../fleet/cluster/fleet.ts";
import { hasEnded } from "../../../fleet/cluster/keys.ts";
import { holdActive } from "../../../fleet/replicas/hold.ts";
import { edgeProgress } from "../../../fleet/routes/progress.ts";
import { findChannelState } from "../../../fleet/routes/store.ts";
import { endDrains, removeTasks } from "../../../fleet/tasks/change.ts";
import { findDeployment, insertEvent, listHosts, lockDeployment } from "../../../fleet/tasks/deployment.ts";
import { isServing } from "../../../fleet/tasks/deployment-status.ts";
import { emptySlots, replicasOf, serveTask } from "../../../fleet/tasks/kinds/serve.ts";
import { insertTask, listWantedTasks } from "../../../fleet/tasks/store.ts";
import { holdPlanOfUser } from "../../../identity/plans/of-user.ts";
import type { Log } from "../../../log.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Deployment, Project, Task } from "../../../stores/db/tables.ts";
import { inTransaction } from "../../../stores/db/transaction.ts";
import type { WorkOutcome } from "../../../stores/work/queue.ts";
import type { WorkHandler } from "../../../stores/work/worker.ts";
import { pointChannel } from "../channel.ts";
import { taskFacts } from "../facts.ts";
import { isRetiring, retire } from "../retire/request.ts";
import { deployDeadlines } from "../steps.ts";
import { isEndAskedFor, moveDeployment } from "../store.ts";

export interface LifecycleDeps {
  clock: Clock;
  db: Db;
  fleet: Fleet;
  log: Log;
}

interface Payload {
  projectId: string;
  action: "stop" | "start";
  deploymentId: string;
}

/**
 * Work of kind `lifecycle`: stops or starts what production serves. A stopped site keeps its hosts and
 * answers with the platform's page; starting it uses the artifact that it had, without a build.
 */
export function lifecycleWorker(deps: LifecycleDeps): WorkHandler {
  return async (item, signal) => {
    const { projectId, action, deploymentId } = item.payload as Payload;
    if (action === "stop") return stop(deps, { projectId, deploymentId }, signal);
    const found = await findDeployment(deps.db, deploymentId);
    if (found === null || found.project.deleting_at !== null) return { state: "done" };
    return start(deps, found.deployment, found.project, signal);
  };
}

/** Stops what production served when somebody asked, or what was held then and serves by now, or what served before. */
async function stop(
  deps: LifecycleDeps,
  { projectId, deploymentId }: Pick<Payload, "projectId" | "deploymentId">,
  signal: AbortSignal,
): Promise<WorkOutcome> {
  const { db, log } = deps;
  const state = await findChannelState(db, { project_id: projectId, channel: "production", pr_number: null });
  const serving = state?.deployment_id ? await findDeployment(db, state.deployment_id) : null;
  if (serving === null || serving.project.deleting_at !== null) return { state: "done" };
  const { deployment } = serving;
  const again = { retryAfterMs: 500, refund: true } as const;
  // It takes the traffic over at this moment; there is nothing to stop before it has, or has given up.
  if (deployment.status === "deploying") return again;
  if (deployment.status !== "running") return { state: "done" };
  if (!(await wasCovered(db, deployment, deploymentId))) return { state: "done" };
  if ((await changeChannel(db, deployment, "running", { stopped: true })) !== "changed") return again;
  if ((await routed(deps, deployment, "stopped", signal)) === "unpublished")
    return { retryAfterMs: 1_000, refund: true };
  await inTransaction(db, async (tx) => {
    const moved = await moveDeployment(tx, deployment.id, { from: "running", to: "stopped", phase: "stopped" });
    // It keeps the containers until every edge shows the page, however long one of them takes.
    if (moved) await retire(tx, deployment.id);
    // Nor does anything go on that it has replaced.
    if (moved) await endDrains(tx, { projectIds: [projectId], channel: deployment });
  });
  log.info({ deploymentId: deployment.id, from: "running", to: "stopped" }, "deployment");
  return { state: "done" };
}

/**
 * Whether a stop that was asked for while `askedId` had the traffic covers what has it now. What was accepted since takes
 * production over, also from a stop that comes late; what served before has it again when the other one did not get there.
 */
async function wasCovered(db: Db, serving: Deployment, askedId: string): Promise<boolean> {
  if (serving.id === askedId || serving.held_at !== null) return true;
  const asked = await findDeployment(db, askedId);
  return asked !== null && serving.number < asked.deployment.number;
}

const suspended = "The project is suspended.";

async function start(
  deps: LifecycleDeps,
  deployment: Deployment,
  project: Project,
  signal: AbortSignal,
): Promise<WorkOutcome> {
  const { db, log } = deps;
  if (deployment.status !== "stopped") return { state: "done" };
  if (project.suspended_at !== null) return startFailed(db, deployment, suspended);
  const state = await findChannelState(db, deployment);
  if (state?.deployment_id !== deployment.id) return { state: "done" };
  // Containers of before the stop may still be draining; using them again would race with their removal.
  if (await isRetiring(db, deployment.id)) return { retryAfterMs: 250, refund: true };
  if (deployment.artifact_kind === "image") {
    const problem = await bringUp(deps, deployment, project, signal);
    if (signal.aborted) return { retryAfterMs: 0, refund: true };
    if (problem !== null) return startFailed(db, deployment, problem);
  }
  const changed = await changeChannel(db, deployment, "stopped", { stopped: false });
  if (changed === "suspended") return startFailed(db, deployment, suspended);
  if (changed === "not ours") return { state: "done" };
  if ((await routed(deps, deployment, "serving", signal)) === "unpublished")
    return { retryAfterMs: 1_000, refund: true };
  await moveDeployment(db, deployment.id, { from: "stopped", to: "running", phase: "started" }, { error: null });
  log.info({ deploymentId: deployment.id, from: "stopped", to: "running" }, "deployment");
  return { state: "done" };
}

/**
 * Starts containers and waits until all of them answer; what is on a node that went away meanwhile is started elsewhere.
 * Returns why they do not, or null.
 */
async function bringUp(
  deps: LifecycleDeps,
  deployment: Deployment,
  project: Project,
  signal: AbortSignal,
): Promise<string | null> {
  const { fleet } = deps;
  let tasks = await serveTasks(deps, deployment, project, []);
  let replacedCount = 0;
  const facts = () => tasks.map((task) => taskFacts(task, fleet));
  const observed = () => facts().map(({ observation }) => observation);
  const replaceLost = async () => {
    const lost = facts().filter(({ nodeLostAt }) => isLost(fleet, nodeLostAt));
    const mostReplaced = tasks.length * (deployDeadlines.attempts - 1);
    if (lost.length === 0 || replacedCount + lost.length > mostReplaced) return;
    replacedCount += lost.length;
    const ids = lost.map(({ id }) => id);
    tasks = await serveTasks(deps, deployment, project, ids);
  };
  const isUp = () => observed().every((observation) => isServing({ observation }));
  const settled = async () => {
    await replaceLost();
    return (
      isUp() ||
      observed().some((observation) => observation && hasEnded(observation.observed)) ||
      (await isEndAskedFor(deps.db, deployment.id)) ||
      // Its containers may have gone before any node was told of them, and nobody says that they ended.
      (await findChannelState(deps.db, deployment))?.deployment_id !== deployment.id
    );
  };
  await until(deps, settled, deployDeadlines.pullMs, signal);
  if (isUp()) return null;
  return observed().find((observation) => observation?.failure)?.failure?.message ?? "The app did not start in time.";
}

/** Whether a node has been away for longer than it may be; only time counts in which this replica looked. */
function isLost(fleet: Fleet, lostAt: Date | null): boolean {
  if (lostAt === null) return false;
  const since = lostAt > fleet.lookingSince ? lostAt : fleet.lookingSince;
  return fleet.now().getTime() - since.getTime() >= deployDeadlines.nodeLostMs;
}

/** The site stays stopped, which is what visitors already see; the reason is where whoever waits will look. */
async function startFailed(db: Db, deployment: Deployment, error: string): Promise<WorkOutcome> {
  const isTold = await inTransaction(db, async (tx) => {
    // Another one has taken its channel over.
    if (!(await lockDeployment(tx, deployment.id, "stopped"))) return false;
    await tx.updateTable("deployment").set({ error }).where("id", "=", deployment.id).execute();
    await insertEvent(tx, { deploymentId: deployment.id, phase: "start-failed", detail: error });
    const state = await findChannelState(tx, deployment, { lock: true });
    if (state?.deployment_id === deployment.id && !state.stopped)
      await pointChannel(tx, deployment, { deploymentId: deployment.id, stopped: true });
    await removeTasks(
      tx,
      (await listWantedTasks(tx, deployment.id, "serve")).map((task) => task.id),
    );
    return true;
  });
  return isTold ? { state: "failed", error } : { state: "done" };
}

/**
 * Flips what the channel shows, if the deployment is still in `status` and still the channel's. What is suspended in
 * this moment is not started: whoever resumes it starts only what was running.
 */
function changeChannel(
  db: Db,
  deployment: Deployment,
  status: "running" | "stopped",
  { stopped }: { stopped: boolean },
): Promise<"changed" | "suspended" | "not ours"> {
  return inTransaction(db, async (tx) => {
    if (!stopped && !(await holdActive(tx, deployment.project_id))) return "suspended";
    if (!(await lockDeployment(tx, deployment.id, status))) return "not ours";
    const state = await findChannelState(tx, deployment, { lock: true });
    if (state?.deployment_id !== deployment.id) return "not ours";
    if (state.stopped !== stopped) await pointChannel(tx, deployment, { deploymentId: deployment.id, stopped });
    return "changed";
  });
}

/**
 * The containers that the start brings up: those of an earlier attempt at this very work, or new ones. Those that are
 * `abandoned` go, and others take their places.
 */
async function serveTasks(
  { db }: LifecycleDeps,
  deployment: Deployment,
  project: Project,
  abandoned: readonly string[],
): Promise<Task[]> {
  const manifest = storedManifestSchema.parse(deployment.manifest);
  return inTransaction(db, async (tx) => {
    const plan = await holdPlanOfUser(tx, project.owner_id);
    // What begins to be deleted or suspended at this moment would not know of what is made here.
    if (!(await holdActive(tx, project.id)) || !(await lockDeployment(tx, deployment.id, "stopped"))) return [];
    await removeTasks(tx, abandoned);
    const wanted = await listWantedTasks(tx, deployment.id, "serve");
    for (const replica of emptySlots(wanted, replicasOf(manifest))) {
      const task = serveTask(deployment, plan, manifest, deployment.image_registry);
      await insertTask(tx, deployment, task, { replica });
    }
    return listWantedTasks(tx, deployment.id, "serve");
  });
}

/**
 * Waits up to 30 s until every edge in rotation shows the hosts of the channel as wanted. `published` means that some
 * edge has not followed: one that is dead must not hold up everything that the project's owner does.
 */
async function routed(
  { clock, db, fleet }: LifecycleDeps,
  deployment: Deployment,
  want: "stopped" | "serving",
  signal: AbortSignal,
): Promise<"everywhere" | "published" | "unpublished"> {
  const hosts = (await listHosts(db, deployment)).map(({ host }) => host);
  const isPublished = () =>
    hosts.every((host) => {
      const entry = fleet.route(host);
      const page = entry?.page?.page;
      if (want === "stopped") return page === "PAGE_STOPPED" || page === "PAGE_SUSPENDED";
      return entry?.deploymentId === deployment.id && page === undefined;
    });
  const deadlineMs = clock.steadyMs() + deployDeadlines.routeMs;
  while (clock.steadyMs() < deadlineMs && !signal.aborted) {
    const edges = await edgeProgress(db, fleet, hosts);
    if (isPublished() && edges.current === edges.inRotation) return "everywhere";
    await changed({ clock, fleet }, Math.min(deadlineMs - clock.steadyMs(), 1_000), signal);
  }
  return isPublished() && !signal.aborted ? "published" : "unpublished";
}

async function until(
  { clock, fleet }: Pick<LifecycleDeps, "clock" | "fleet">,
  condition: () => Promise<boolean>,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<void> {
  const deadlineMs = clock.steadyMs() + timeoutMs;
  while (!(await condition()) && clock.steadyMs() < deadlineMs && !signal.aborted) {
    await changed({ clock, fleet }, Math.min(deadlineMs - clock.steadyMs(), 1_000), signal);
  }
}

/** Resolves at the next change of placements, routes or edges, or after the time. */
async function changed(
  { clock, fleet }: Pick<LifecycleDeps, "clock" | "fleet">,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<void> {
  const wake = createWake(clock);
  using _placements = fleet.onChange("placements", wake.signal);
  using _routes = fleet.onChange("routes", wake.signal);
  using _edges = fleet.onChange("edges", wake.signal);
  await wake.wait(Math.max(timeoutMs, 1), signal);
}
