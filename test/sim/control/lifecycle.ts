import { hasEnded, type ObservationValue } from "@svc/control/fleet/cluster/keys";
import { isServing } from "@svc/control/fleet/tasks/deployment-status";
import { emptySlots } from "@svc/control/fleet/tasks/kinds/serve";
import { deployDeadlines } from "@svc/control/tenants/deployments/steps";
import { openStatuses } from "@svc/proto";
import { pause, type Work, wait } from "../kernel/kernel.ts";
import type { DeploymentRow, SiteRow, Tables, TaskRow, WorkRow } from "../stores/postgres.ts";
import type { World } from "../world/world.ts";
import { move, type Outcome } from "./outcome.ts";
import type { Replica } from "./replica.ts";
import { edgesInRotation } from "./routed.ts";

const lookEveryMs = 500;
const open = new Set<string>(openStatuses);

// ------------------------------------------------------------------ requests

/** Somebody stops what a site serves: mirrors `control/src/tenants/deployments/{lifecycle-request,hold}.ts`. */
export function requestStop(world: World, tables: Tables, site: SiteRow): void {
  const row = servedBy(tables, site);
  if (row === undefined) return;
  const takesOver = row.status === "deploying" && tables.servingBeside(row).some(({ status }) => status === "running");
  if (row.status !== "running" && !takesOver) return;
  world.checks.onStopAsked(site);
  if (world.cores.shell.stopsCoverOpen) {
    for (const each of openOf(tables, site)) each.heldAt ??= world.postgres.now();
  }
  enqueueOnce(world, tables, "stop", row);
}

/** Somebody has the site serve again, and with it what the stop held. */
export function requestStart(world: World, tables: Tables, site: SiteRow): void {
  const row = servedBy(tables, site);
  if (row?.status !== "stopped") return;
  world.checks.onStartAsked(site.projectId);
  for (const each of openOf(tables, site)) each.heldAt = null;
  if (enqueueOnce(world, tables, "start", row)) row.heldAt = null;
}

const servedBy = (tables: Tables, { deploymentId }: SiteRow): DeploymentRow | undefined =>
  deploymentId === null ? undefined : tables.deployments.get(deploymentId);

const openOf = (tables: Tables, { projectId }: SiteRow): DeploymentRow[] =>
  [...tables.deployments.values()].filter((row) => row.projectId === projectId && open.has(row.status));

/** False when the same is waiting already. */
function enqueueOnce(world: World, tables: Tables, kind: "stop" | "start", { id, projectId }: DeploymentRow): boolean {
  const isWaiting = [...tables.work.values()].some(
    (item) => item.kind === kind && item.deploymentId === id && item.state !== "done",
  );
  if (!isWaiting) tables.enqueue(kind, id, `lifecycle/${projectId}`, world.postgres.nowMs());
  return !isWaiting;
}

// ---------------------------------------------------------------------- stop

/** Mirrors `stop` of `control/src/tenants/deployments/lifecycle/worker.ts`. */
export function* stopSite(replica: Replica, { deploymentId: asked }: WorkRow): Work<Outcome> {
  const { world } = replica;
  const row = yield* replica.transact((tables) => {
    const site = tables.siteOf(tables.deployments.get(asked)?.projectId ?? "");
    const served = site === null ? undefined : servedBy(tables, site);
    return served === undefined ? null : { ...served, isCovered: wasCovered(tables, served, asked) };
  });
  if (row === null) return "done";
  if (row.status === "deploying") return { retryAfterMs: lookEveryMs };
  if (row.status !== "running" || !row.isCovered) return "done";
  if (!(yield* changeChannel(replica, row, "running", { stopped: true }))) return { retryAfterMs: lookEveryMs };
  if (!(yield* routed(replica, row, { stopped: true }))) return { retryAfterMs: 1_000 };
  yield* replica.transact((tables, notify) => {
    const current = tables.deployments.get(row.id);
    if (current?.status !== "running" || !move(replica, current, "stopped")) return;
    world.checks.onStopped(current);
    tables.enqueue("retire", row.id, `retire/${row.id}`, world.postgres.nowMs());
    tables.endDrains(row.projectId);
    for (const topic of ["work", "task", "route"] as const) notify(topic);
  });
  return "done";
}

/** What was accepted since takes production over; what served before may have it again. */
function wasCovered(tables: Tables, { id, heldAt, createdAt }: DeploymentRow, askedId: string): boolean {
  const asked = tables.deployments.get(askedId);
  return id === askedId || heldAt !== null || (asked !== undefined && createdAt < asked.createdAt);
}

// --------------------------------------------------------------------- start

/** Mirrors `start` of `control/src/tenants/deployments/lifecycle/worker.ts`. */
export function* startSite(replica: Replica, { deploymentId }: WorkRow): Work<Outcome> {
  const read = yield* replica.transact((tables) => {
    const row = tables.deployments.get(deploymentId);
    const isServed = row !== undefined && tables.siteOf(row.projectId)?.deploymentId === row.id;
    if (!isServed || row.status !== "stopped") return null;
    const isRetiring = [...tables.work.values()].some(
      ({ key, state }) => key === `retire/${deploymentId}` && state !== "done",
    );
    return { row: { ...row }, isRetiring };
  });
  if (read === null) return "done";
  const { row, isRetiring } = read;
  // Containers of before the stop may still be on their way out.
  if (isRetiring) return { retryAfterMs: 250 };
  if (!(yield* bringUp(replica, row))) {
    yield* startFailed(replica, row);
    return "done";
  }
  if (!(yield* changeChannel(replica, row, "stopped", { stopped: false }))) return "done";
  if (!(yield* routed(replica, row, { stopped: false }))) return { retryAfterMs: 1_000 };
  yield* replica.transact((tables, notify) => {
    const current = tables.deployments.get(row.id);
    if (current?.status === "stopped") move(replica, current, "started");
    notify("route");
  });
  return "done";
}

/** Starts containers and waits until all of them answer; false when they do not. */
function* bringUp(replica: Replica, row: DeploymentRow): Work<boolean> {
  const { fleet, process } = replica;
  let tasks = yield* serveTasks(replica, row, []);
  let replaced = 0;
  const nodeOf = ({ id, nodeId }: TaskRow) => fleet.findPlacement(id)?.nodeId ?? nodeId;
  const observed = (): (ObservationValue | null)[] =>
    tasks.map((task) => {
      const nodeId = nodeOf(task);
      return nodeId === null ? null : fleet.observation(nodeId, task.id);
    });
  const isUp = () => observed().every((observation) => isServing({ observation }));
  const untilMs = process.monoMs() + deployDeadlines.pullMs;
  while (process.monoMs() < untilMs) {
    const lost = tasks.filter((task) => isLost(replica, nodeOf(task))).map(({ id }) => id);
    if (lost.length > 0 && replaced + lost.length <= tasks.length * (deployDeadlines.attempts - 1)) {
      replaced += lost.length;
      tasks = yield* serveTasks(replica, row, lost);
    }
    if (isUp() || observed().some((each) => each !== null && hasEnded(each.observed))) break;
    if (!(yield* replica.transact((tables) => tables.siteOf(row.projectId)?.deploymentId === row.id))) break;
    yield* wait(pause(lookEveryMs));
  }
  return isUp();
}

/** Whether a node has been away for longer than it may be; only time counts in which this replica looked. */
function isLost({ fleet }: Replica, nodeId: string | null): boolean {
  const lostAt = nodeId === null ? null : fleet.nodeLostAt(nodeId);
  if (lostAt === null) return false;
  const since = lostAt > fleet.lookingSince ? lostAt : fleet.lookingSince;
  return fleet.now().getTime() - since.getTime() >= deployDeadlines.nodeLostMs;
}

/** What the start brings up. What is `abandoned` goes, and other containers take its places. */
function* serveTasks(
  replica: Replica,
  { id, projectId, replicas }: DeploymentRow,
  abandoned: readonly string[],
): Work<TaskRow[]> {
  const { world } = replica;
  return yield* replica.transact((tables, notify) => {
    const site = tables.siteOf(projectId);
    if (site === null || tables.deployments.get(id)?.status !== "stopped") return [];
    tables.removeTasks(abandoned);
    for (const slot of emptySlots(tables.wantedTasksOf(id), replicas)) {
      tables.insertTask({
        ...{ projectId, deploymentId: id, replica: slot, memoryMb: site.memoryMb, cause: null },
        createdAt: world.postgres.now(),
      });
    }
    notify("task");
    return tables.wantedTasksOf(id).map((task) => ({ ...task }));
  });
}

/** The site stays stopped, which is what visitors already see. */
function* startFailed(replica: Replica, { id, projectId }: DeploymentRow): Work {
  const { world } = replica;
  yield* replica.transact((tables, notify) => {
    if (tables.deployments.get(id)?.status !== "stopped") return;
    const site = tables.siteOf(projectId);
    if (site?.deploymentId === id && !site.stopped)
      Object.assign(site, { stopped: true, changedAt: world.postgres.now() });
    const wanted = tables.wantedTasksOf(id).map((task) => task.id);
    tables.removeTasks(wanted);
    for (const topic of ["task", "route"] as const) notify(topic);
  });
}

// -------------------------------------------------------------------- common

/** Flips what the channel shows, if the deployment is still in `status` and still the channel's. */
function* changeChannel(
  replica: Replica,
  { id, projectId }: DeploymentRow,
  status: "running" | "stopped",
  { stopped }: { stopped: boolean },
): Work<boolean> {
  return yield* replica.transact((tables, notify) => {
    const site = tables.siteOf(projectId);
    if (site?.deploymentId !== id || tables.deployments.get(id)?.status !== status) return false;
    if (site.stopped !== stopped) Object.assign(site, { stopped, changedAt: replica.world.postgres.now() });
    notify("route");
    return true;
  });
}

/** Waits up to 30 s until every edge in rotation shows the site as wanted; false when it is not even published then. */
function* routed(replica: Replica, { id, projectId }: DeploymentRow, { stopped }: { stopped: boolean }): Work<boolean> {
  const { fleet, process, world } = replica;
  const untilMs = process.monoMs() + deployDeadlines.routeMs;
  for (;;) {
    const read = yield* replica.transact((tables) => ({
      host: tables.siteOf(projectId)?.host ?? "",
      edges: edgesInRotation(tables),
    }));
    const entry = fleet.route(read.host);
    const page = entry?.page?.page;
    const isPublished = stopped ? page === "PAGE_STOPPED" : entry?.deploymentId === id && page === undefined;
    const isEverywhere = world.cores.edgesFollowing(fleet, read.edges, [read.host]) === read.edges.length;
    if ((isPublished && isEverywhere) || process.monoMs() >= untilMs) return isPublished;
    yield* wait(pause(lookEveryMs));
  }
}
