import { emptySlots } from "@svc/control/fleet/tasks/kinds/serve";
import type { ClaimedWork, WorkOutcome } from "@svc/control/stores/work/queue";
import type { LifecycleStep, StartFacts, StopFacts } from "@svc/control/tenants/deployments/lifecycle/steps";
import { openStatuses } from "@svc/proto";
import { pause, type Work, wait } from "../kernel/kernel.ts";
import type { DeploymentRow, SiteRow, Tables } from "../stores/postgres.ts";
import type { World } from "../world/world.ts";
import { containerFacts, healthTimeoutSeconds } from "./container-facts.ts";
import { done, move } from "./outcome.ts";
import type { Replica } from "./replica.ts";
import { edgesInRotation } from "./routed.ts";

const lookEveryMs = 500;

type Action = "stop" | "start";
interface Payload {
  projectId: string;
  action: Action;
  deploymentId: string;
}
const open = new Set<string>(openStatuses);

// ------------------------------------------------------------------ requests

/** Somebody stops what a site serves: mirrors `control/src/tenants/deployments/lifecycle/{request,hold}.ts`. */
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
  if (enqueueOnce(world, tables, "start", row)) Object.assign(row, { heldAt: null, errorCode: null });
}

const servedBy = (tables: Tables, { deploymentId }: SiteRow): DeploymentRow | undefined =>
  deploymentId === null ? undefined : tables.deployments.get(deploymentId);

const openOf = (tables: Tables, { projectId }: SiteRow): DeploymentRow[] =>
  [...tables.deployments.values()].filter((row) => row.projectId === projectId && open.has(row.status));

/** False when the same is waiting already. */
function enqueueOnce(world: World, tables: Tables, action: Action, { id, projectId }: DeploymentRow): boolean {
  const key = `lifecycle/${projectId}`;
  const isWaiting = [...tables.work.items.values()].some((item) => {
    const { deploymentId, action: asked } = item.payload as Payload;
    return item.key === key && asked === action && deploymentId === id;
  });
  const payload: Payload = { projectId, action, deploymentId: id };
  if (!isWaiting) tables.work.add({ now: world.postgres.now(), notify() {} }, { kind: "lifecycle", key, payload });
  return !isWaiting;
}

// ---------------------------------------------------------------- carrying on

type Facts = StopFacts | StartFacts;
type Step = Exclude<LifecycleStep, { do: "wait" | "end" }>;

/** Mirrors `control/src/tenants/deployments/lifecycle/worker.ts`. */
export function* carryOutLifecycle(replica: Replica, item: ClaimedWork): Work<WorkOutcome> {
  const { action } = item.payload as Payload;
  for (;;) {
    const at = yield* readFacts(replica, item, action);
    if (at === null) return done;
    const step = replica.world.cores.nextLifecycleStep(at.facts);
    if (step.do === "end") return done;
    if (step.do === "wait") {
      if (step.recheckMs !== null) return { retryAfterMs: step.recheckMs, refund: true };
      yield* wait(pause(lookEveryMs));
      continue;
    }
    yield* replica.transact((tables, notify) => {
      perform(replica, tables, at.id, step);
      for (const topic of ["work", "task", "route"] as const) notify(topic);
    });
  }
}

function* readFacts(
  replica: Replica,
  { id: itemId, payload }: ClaimedWork,
  action: Action,
): Work<{ id: string; facts: Facts } | null> {
  const { fleet, world } = replica;
  const { projectId, deploymentId: asked } = payload as Payload;
  const read = yield* replica.transact((tables) => {
    const site = tables.siteOf(projectId);
    const row = action === "start" ? tables.deployments.get(asked) : site === null ? undefined : servedBy(tables, site);
    if (site === null || row === undefined) return null;
    return {
      row: { ...row },
      site: { ...site },
      isCovered: wasCovered(tables, row, asked),
      retiring: tables.work.hasOpen(`retire/${row.id}`),
      tasks: tables.tasksOf(row.id).map((task) => ({ ...task })),
      edges: edgesInRotation(tables),
      askedAt: tables.work.items.get(itemId)?.createdAt ?? world.postgres.now(),
      now: world.postgres.now(),
    };
  });
  if (read === null) return null;
  const { row, site, tasks, edges, askedAt, now } = read;
  const aheadMs = fleet.now().getTime() - now.getTime();
  const entry = fleet.route(site.host);
  const page = entry?.page?.page;
  const facts = {
    ...{ now, lookingSince: new Date(fleet.lookingSince.getTime() - aheadMs), askedAt, status: row.status },
    projectGone: false,
    channel: site.deploymentId === row.id ? { stopped: site.stopped, since: site.changedAt } : null,
    route: {
      published: action === "stop" ? page === "PAGE_STOPPED" : entry?.deploymentId === row.id && page === undefined,
      edgesCurrent: world.cores.edgesFollowing(fleet, edges, [site.host]),
      edgesInRotation: edges.length,
    },
  };
  if (action === "stop") return { id: row.id, facts: { ...facts, action, isCovered: read.isCovered } };
  const app = {
    ...{ replicas: row.replicas, healthTimeoutSeconds },
    attempts: tasks.filter(({ createdAt }) => createdAt >= askedAt).length,
    containers: containerFacts(fleet, tasks, aheadMs),
  };
  const { retiring } = read;
  return { id: row.id, facts: { ...facts, action, suspended: false, error: row.errorCode, retiring, app } };
}

/** What was accepted since takes production over; what served before may have it again. */
function wasCovered(tables: Tables, { id, heldAt, createdAt }: DeploymentRow, askedId: string): boolean {
  const asked = tables.deployments.get(askedId);
  return id === askedId || heldAt !== null || (asked !== undefined && createdAt < asked.createdAt);
}

function perform(replica: Replica, tables: Tables, id: string, step: Step): void {
  const { world } = replica;
  const row = tables.deployments.get(id);
  const site = row === undefined ? null : tables.siteOf(row.projectId);
  const needed = step.do === "close" || step.do === "stopped" ? "running" : "stopped";
  if (row?.status !== needed || site === null) return;
  const show = (stopped: boolean) => {
    if (site.deploymentId !== id || site.stopped === stopped) return;
    Object.assign(site, { stopped, changedAt: world.postgres.now() });
  };
  switch (step.do) {
    case "close":
      show(true);
      return;
    case "stopped":
      if (!move(replica, row, "stopped")) return;
      world.checks.onStopped(row);
      tables.enqueue("retire", id, `retire/${id}`, world.postgres.now());
      tables.endDrains(row.projectId);
      return;
    case "make": {
      if (site.deploymentId !== id) return;
      const abandoned = step.abandoned.map(({ taskId }) => taskId);
      tables.removeTasks(abandoned);
      for (const slot of emptySlots(tables.wantedTasksOf(id), row.replicas)) {
        tables.insertTask({
          ...{ projectId: row.projectId, deploymentId: id, replica: slot, memoryMb: site.memoryMb, cause: null },
          createdAt: world.postgres.now(),
        });
      }
      return;
    }
    case "open":
      show(false);
      return;
    case "started":
      move(replica, row, "started");
      return;
    case "fail":
      row.errorCode = "start-failed";
      show(true);
      tables.removeTasks(tables.wantedTasksOf(id).map((task) => task.id));
      return;
  }
}
