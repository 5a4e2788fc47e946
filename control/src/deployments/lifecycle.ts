import { isOciManifest, manifestSchema } from "@svc/proto";
import { planOfUser } from "../accounts/plan.ts";
import type { Fleet } from "../cluster/fleet.ts";
import type { Db } from "../db/pool.ts";
import type { Deployment, Project } from "../db/tables.ts";
import type { Log } from "../log.ts";
import { serveTask } from "../tasks/spec.ts";
import { insertTask } from "../tasks/store.ts";
import { createBell } from "../wake.ts";
import type { WorkOutcome } from "../work/queue.ts";
import type { WorkHandler } from "../work/worker.ts";
import { edgeProgress } from "./edges.ts";
import { deployDeadlines, isServing } from "./steps.ts";
import {
  findChannelState,
  findDeployment,
  inTransaction,
  listHosts,
  listTasks,
  moveDeployment,
  removeTasks,
  setChannelState,
} from "./store.ts";
import { isRetiring, retire } from "./worker.ts";

export interface LifecycleDeps {
  db: Db;
  fleet: Fleet;
  log: Log;
  now: () => Date;
}

type Payload = { projectId: string; action: "stop" | "start"; deploymentId: string };

/**
 * Work of kind `lifecycle`: stops or starts what production serves. A stopped site keeps its hosts and
 * answers with the platform's page; starting it uses the artifact that it had, without a build.
 */
export function lifecycleWorker(deps: LifecycleDeps): WorkHandler {
  return async (item, signal) => {
    const { action, deploymentId } = item.payload as Payload;
    const found = await findDeployment(deps.db, deploymentId);
    if (found === null || found.project.deleting_at !== null) return { state: "done" };
    return action === "stop"
      ? stop(deps, found.deployment, signal)
      : start(deps, found.deployment, found.project, signal);
  };
}

async function stop(deps: LifecycleDeps, deployment: Deployment, signal: AbortSignal): Promise<WorkOutcome> {
  const { db, log } = deps;
  if (deployment.status !== "running") return { state: "done" };
  const state = await findChannelState(db, deployment);
  if (state?.deployment_id !== deployment.id) return { state: "done" };
  if (!state.stopped) await setChannelState(db, deployment, { deploymentId: deployment.id, stopped: true });
  if (!(await routed(deps, deployment, "stopped", signal))) return { retryAfterMs: 1_000, free: true };
  await inTransaction(db, async (tx) => {
    const moved = await moveDeployment(tx, deployment.id, { from: "running", to: "stopped", phase: "stopped" });
    if (moved) await retire(tx, deployment.id);
  });
  log.info({ deploymentId: deployment.id, from: "running", to: "stopped" }, "deployment");
  return { state: "done" };
}

async function start(
  deps: LifecycleDeps,
  deployment: Deployment,
  project: Project,
  signal: AbortSignal,
): Promise<WorkOutcome> {
  const { db, fleet, log, now } = deps;
  if (deployment.status !== "stopped") return { state: "done" };
  if (project.suspended_at !== null) return { state: "failed", error: "the project is suspended" };
  const state = await findChannelState(db, deployment);
  if (state?.deployment_id !== deployment.id) return { state: "done" };
  // Containers of before the stop may still be draining; using them again would race with their removal.
  if (await isRetiring(db, deployment.id)) return { retryAfterMs: 250, free: true };
  if (deployment.artifact_kind === "image" && state.stopped) {
    const tasks = await serveTasks(deps, deployment, project);
    const deadline = now().getTime() + deployDeadlines.pullMs;
    const observed = () =>
      tasks.map((id) => {
        const placed = fleet.findPlacement(id);
        return placed ? fleet.observation(placed.nodeId, id) : null;
      });
    const settled = () =>
      observed().every((observation) => isServing({ observation })) ||
      observed().some((observation) => observation && ["failed", "rejected"].includes(observation.observed));
    await until(fleet, settled, deadline - now().getTime(), signal);
    if (signal.aborted) return { retryAfterMs: 0, free: true };
    if (!observed().every((observation) => isServing({ observation }))) {
      const failure = observed().find((observation) => observation?.failure)?.failure;
      await removeTasks(db, tasks);
      // The site stays stopped, which is what visitors already see.
      return { state: "failed", error: failure?.message ?? "the app did not start in time" };
    }
  }
  if (state.stopped) await setChannelState(db, deployment, { deploymentId: deployment.id, stopped: false });
  if (!(await routed(deps, deployment, "serving", signal))) return { retryAfterMs: 1_000, free: true };
  await moveDeployment(db, deployment.id, { from: "stopped", to: "running", phase: "started" });
  log.info({ deploymentId: deployment.id, from: "stopped", to: "running" }, "deployment");
  return { state: "done" };
}

/** The containers that the start brings up: those of an earlier attempt at this very work, or new ones. */
async function serveTasks({ db }: LifecycleDeps, deployment: Deployment, project: Project): Promise<string[]> {
  const existing = (await listTasks(db, deployment.id)).filter(
    (task) => task.kind === "serve" && task.desired === "running",
  );
  if (existing.length > 0) return existing.map((task) => task.id);
  const manifest = manifestSchema.parse(deployment.manifest);
  const plan = await planOfUser(db, project.owner_id);
  const replicas = isOciManifest(manifest) ? 1 : manifest.app.replicas;
  return inTransaction(db, async (tx) => {
    const ids: string[] = [];
    for (let replica = 0; replica < replicas; replica += 1) {
      ids.push(
        await insertTask(tx, deployment, serveTask(deployment, plan, manifest, deployment.image_registry), { replica }),
      );
    }
    return ids;
  });
}

/** Whether every edge in rotation shows the hosts of the channel as wanted within 30 s. */
async function routed(
  { db, fleet }: LifecycleDeps,
  deployment: Deployment,
  want: "stopped" | "serving",
  signal: AbortSignal,
): Promise<boolean> {
  const hosts = (await listHosts(db, deployment)).map(({ host }) => host);
  const published = () => {
    return hosts.every((host) => {
      const entry = fleet.route(host);
      const isStopped = entry?.page?.page === "PAGE_STOPPED";
      return want === "stopped" ? isStopped : entry?.deploymentId === deployment.id && !entry.page;
    });
  };
  const deadline = performance.now() + deployDeadlines.routeMs;
  while (performance.now() < deadline && !signal.aborted) {
    const edges = await edgeProgress(db, fleet, hosts);
    if (published() && edges.current === edges.inRotation) return true;
    await changed(fleet, Math.min(deadline - performance.now(), 1_000), signal);
  }
  return false;
}

async function until(fleet: Fleet, condition: () => boolean, timeoutMs: number, signal: AbortSignal): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  while (!condition() && performance.now() < deadline && !signal.aborted) {
    await changed(fleet, Math.min(deadline - performance.now(), 1_000), signal);
  }
}

/** Resolves at the next change of placements, routes or edges, or after the time. */
async function changed(fleet: Fleet, timeoutMs: number, signal: AbortSignal): Promise<void> {
  const bell = createBell();
  using _placements = fleet.onChange("placements", bell.ring);
  using _routes = fleet.onChange("routes", bell.ring);
  using _edges = fleet.onChange("edges", bell.ring);
  await bell.wait(Math.max(timeoutMs, 1), signal);
}
