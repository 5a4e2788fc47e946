import { keys, type RunValue } from "@svc/control/fleet/cluster/keys";
import { type Decision, place } from "@svc/control/fleet/scheduler/placement";
import { reservationsOf } from "@svc/control/fleet/scheduler/steps";
import { emptySlots } from "@svc/control/fleet/tasks/kinds/serve";
import { EtcdError, UnknownOutcome } from "@svc/control/stores/etcd/errors";
import type { ClaimedWork, WorkOutcome } from "@svc/control/stores/work/queue";
import { memoryWorkRows } from "@svc/control/stores/work/testing/memory";
import { startWorkers, type WorkHandler } from "@svc/control/stores/work/worker";
import { lifecycleWorker } from "@svc/control/tenants/deployments/lifecycle/worker";
import { retireWorker } from "@svc/control/tenants/deployments/retire/worker";
import type { nextDeployStep as _real, DeployFacts } from "@svc/control/tenants/deployments/steps";
import { memoryLifecycleRows } from "@svc/control/tenants/deployments/testing/memory/lifecycle-rows";
import { memoryRetireRows } from "@svc/control/tenants/deployments/testing/memory/retire-rows";
import { healthTimeoutSeconds } from "@svc/control/tenants/deployments/testing/memory/tables";
import { createBell, pause, type Scope, type Work, wait } from "../kernel/kernel.ts";
import { enter, virtualClock } from "../kernel/ports.ts";
import { virtualLog } from "../machines/log.ts";
import { DatabaseError, type DeploymentRow, releaseAttemptId, type Tables } from "../stores/postgres.ts";
import { containerFacts } from "./container-facts.ts";
import { schedulable } from "./leader/snapshot.ts";
import { done, move } from "./outcome.ts";
import type { Replica } from "./replica.ts";
import { cancelRun } from "./runs.ts";
import { transactOf } from "./transact.ts";

/** As in `control/src/start.ts`. */
const leaseMs = 10_000;
const deploysAtOnce = 6;
const otherWorkAtOnce = 4;
const drainMs = 5_000;
const releaseTimeoutSeconds = 30;

/** Claims and does queued work; what is done for deploys is a copy still. */
export function startWork(replica: Replica): void {
  const { process, listener, isCutOff, fleet, etcd } = replica;
  const transact = transactOf(replica);
  const ports = { clock: virtualClock(process), log: virtualLog(process) };
  startWorkers({
    ...{ ...ports, listener, isCutOff, rows: memoryWorkRows(transact), owner: replica.id, leaseMs },
    groups: [
      { concurrency: deploysAtOnce, handlers: { deploy: handlerOf(replica, deploy) } },
      {
        concurrency: otherWorkAtOnce,
        handlers: {
          retire: retireWorker({ ...ports, etcd, fleet, drainMs, rows: memoryRetireRows(transact) }),
          lifecycle: lifecycleWorker({ ...ports, fleet, rows: memoryLifecycleRows(transact) }),
        },
      },
    ],
  });
}

const isTrouble = (error: unknown): boolean =>
  error instanceof EtcdError || error instanceof UnknownOutcome || error instanceof DatabaseError;

/** Work in a scope of its own, which ends with it, or when its signal is aborted. */
const handlerOf =
  (replica: Replica, work: (replica: Replica, item: ClaimedWork, scope: Scope) => Work<WorkOutcome>): WorkHandler =>
  (item, signal) => {
    const scope = replica.scope.child();
    const { promise, resolve, reject } = Promise.withResolvers<WorkOutcome>();
    signal.addEventListener("abort", () => {
      scope.end();
      resolve({ retryAfterMs: 0, refund: true });
    });
    const over = (settle: () => void) => {
      scope.end();
      enter(replica.process, settle);
    };
    scope.spawn(
      work(replica, item, scope),
      (error) => {
        if (!isTrouble(error)) throw error;
        over(() => reject(error));
      },
      (outcome) => over(() => resolve(outcome)),
    );
    return promise;
  };

const deploymentIdOf = ({ payload }: ClaimedWork): string => (payload as { deploymentId: string }).deploymentId;

// ------------------------------------------------------------------- deploy

function* readFacts(replica: Replica, id: string): Work<{ facts: DeployFacts; row: DeploymentRow } | null> {
  const { fleet, client, world } = replica;
  const read = yield* replica.transact((tables) => {
    const row = tables.deployments.get(id);
    if (row === undefined) return null;
    const site = tables.siteOf(row.projectId);
    const overtaken = [...tables.deployments.values()].some(
      (other) =>
        other.projectId === row.projectId &&
        other.number > row.number &&
        ["queued", "building", "deploying"].includes(other.status),
    );
    const replacesContainers = [...tables.deployments.values()].some(
      (other) => other.projectId === row.projectId && other.id !== id && other.status === "running",
    );
    return {
      row: { ...row },
      site: site && { ...site },
      overtaken,
      replacesContainers,
      tasks: tables.tasksOf(id).map((task) => ({ ...task })),
      isDraining: tables.drainingOf(row.projectId).length > 0,
      edges: tables.edgesInRotation(),
      now: world.postgres.now(),
    };
  });
  if (read === null || read.site === null) return null;
  const { row, site, tasks, edges } = read;
  // Waits are counted from times that the database gave, and the clock of this replica may differ from its.
  const aheadMs = fleet.now().getTime() - read.now.getTime();
  const shared = (at: Date | null) => at && new Date(at.getTime() - aheadMs);
  const serve = containerFacts(fleet, tasks, aheadMs);
  const upstreams = new Set(serve.map(({ observation }) => observation?.upstream ?? ""));
  const entry = fleet.route(site.host);
  const published =
    entry?.deploymentId === id &&
    !entry.page &&
    (entry.proxy?.upstreams.some((upstream) => upstreams.has(upstream)) ?? false);
  let run: RunValue | null = null;
  if (row.releaseAttempt > 0 && row.releaseNodeId !== null) {
    const attemptId = releaseAttemptId(id, row.releaseAttempt);
    run = runOn(fleet, row.releaseNodeId, attemptId)?.run ?? null;
    if (run === null) {
      const found = yield* client.get(keys.run(row.releaseNodeId, attemptId));
      run = found === null ? null : world.values.of<RunValue>(found.value);
    }
  }
  const active = site.deploymentId === id;
  const looksForNode =
    row.status === "deploying" &&
    row.releaseStatus === "pending" &&
    (row.releaseAttempt === 0 || run?.state === "refused" || run?.state === "not_started");
  const decision = looksForNode ? yield* placeRelease(replica, row) : null;
  const refused = decision !== null && "refused" in decision ? decision.refused : null;
  return {
    row,
    facts: {
      now: read.now,
      id,
      type: "ssr",
      status: row.status,
      statusSince: row.statusSince,
      lookingSince: shared(fleet.lookingSince) ?? read.now,
      cancelRequested: row.cancelRequested,
      held: row.heldAt !== null,
      projectGone: false,
      suspended: false,
      overtaken: read.overtaken,
      artifact: { kind: "image", digest: "sha256:0" },
      buildAttempts: 0,
      build: null,
      release: {
        timeoutSeconds: row.hasRelease ? releaseTimeoutSeconds : null,
        status: row.releaseStatus,
        attempt: row.releaseAttempt,
        run,
        nodeLostAt: run === null || row.releaseNodeId === null ? null : shared(fleet.nodeLostAt(row.releaseNodeId)),
        refused,
      },
      healthTimeoutSeconds,
      replicas: row.replicas,
      serveAttempts: tasks.length,
      replacesContainers: read.replacesContainers,
      draining: refused !== null && read.isDraining,
      serve,
      active,
      activatedAt: active ? site.changedAt : null,
      route: {
        published,
        edgesCurrent: world.cores.edgesFollowing(fleet, edges, [site.host]),
        edgesInRotation: edges.length,
      },
    },
  };
}

function* deploy(replica: Replica, item: ClaimedWork, scope: Scope): Work<WorkOutcome> {
  const { fleet, world } = replica;
  const deploymentId = deploymentIdOf(item);
  const bell = createBell();
  const stops = (["placements", "runs", "routes", "edges"] as const).map((what) => fleet.onChange(what, bell.ring));
  scope.onEnd(() => {
    for (const stop of stops) stop[Symbol.dispose]();
  });
  for (;;) {
    const at = yield* readFacts(replica, deploymentId);
    if (at === null) return done;
    const step = world.cores.nextDeployStep(at.facts);
    if (step.do !== "wait") world.kernel.note(() => `${replica.id}: ${deploymentId} ${step.do}`);
    if (step.do === "end") return done;
    if (step.do === "wait") {
      const leftMs = Math.max(step.deadline.getTime() - at.facts.now.getTime(), 0);
      yield* wait(bell.wait(Math.min(leftMs, 1_000)));
      continue;
    }
    yield* perform(replica, step, at);
  }
}

type Step = Exclude<ReturnType<typeof _real>, { do: "wait" | "end" }>;

function endBadly(replica: Replica, tables: Tables, row: DeploymentRow, event: "failed" | "canceled"): boolean {
  if (!move(replica, row, event)) return false;
  const site = tables.siteOf(row.projectId);
  if (site !== null && site.deploymentId === row.id) {
    const [previous] = tables.servingBeside(row);
    site.deploymentId = previous?.id ?? null;
    site.stopped = previous?.status === "stopped";
    site.changedAt = replica.world.postgres.now();
  }
  if (row.releaseStatus === "pending" || row.releaseStatus === "running") row.releaseStatus = "failed";
  tables.enqueue("retire", row.id, `retire/${row.id}`, replica.world.postgres.now());
  return true;
}

/** Ends what the channel served before, or would have after a start. */
function supersedeOthers(replica: Replica, tables: Tables, row: DeploymentRow): void {
  for (const other of tables.servingBeside(row)) {
    move(replica, other, "superseded");
    tables.enqueue("retire", other.id, `retire/${other.id}`, replica.world.postgres.now());
  }
}

function* perform(replica: Replica, step: Step, { row: at, facts }: { row: DeploymentRow; facts: DeployFacts }): Work {
  const { fleet, client, world, process } = replica;
  const { id } = at;
  const writer = { by: "worker", serverId: replica.id } as const;
  /** The row, while it still has the status that the step was decided for. */
  const current = (tables: Tables): DeploymentRow | null => {
    const row = tables.deployments.get(id);
    return row?.status === at.status ? row : null;
  };
  const setRun = function* (nodeId: string, run: RunValue, modRevision: bigint | null): Work<boolean> {
    const key = keys.run(nodeId, run.attemptId);
    const { succeeded } = yield* wait(
      client.txn({
        guards: [
          modRevision === null ? { key, compare: "absent" } : { key, compare: "modRevision", value: modRevision },
        ],
        ops: [{ put: { key, value: world.values.textOf(run) } }],
        writer,
      }),
    );
    return succeeded;
  };
  const seen = function* (condition: () => boolean): Work {
    const untilMs = process.monoMs() + 2_000;
    while (!condition() && process.monoMs() < untilMs) yield* wait(pause(10));
  };
  switch (step.do) {
    case "claim":
      yield* replica.transact((tables) => {
        const row = current(tables);
        if (row !== null) move(replica, row, "claimed");
      });
      return;
    case "beginDeploying":
      yield* replica.transact((tables) => {
        const row = current(tables);
        if (row !== null) move(replica, row, "built");
      });
      return;
    case "cancel":
    case "fail":
    case "revert":
    case "failRelease":
      yield* replica.transact((tables, notify) => {
        const row = current(tables);
        if (row === null || !endBadly(replica, tables, row, step.do === "cancel" ? "canceled" : "failed")) return;
        row.error = step.do === "fail" || step.do === "failRelease" ? step.code : step.do;
        notify("work");
        notify("route");
      });
      return;
    case "createServe":
      yield* replica.transact((tables, notify) => {
        const row = current(tables);
        const site = tables.siteOf(at.projectId);
        if (row === null || site === null) return;
        // A late worker must not take away what another one has let serve since.
        if (site.deploymentId === id) return;
        tables.removeTasks(step.abandoned.map(({ taskId }) => taskId));
        for (const slot of emptySlots(tables.wantedTasksOf(id), facts.replicas)) {
          tables.insertTask({
            ...{ projectId: at.projectId, deploymentId: id, replica: slot, memoryMb: row.memoryMb, cause: null },
            createdAt: world.postgres.now(),
          });
        }
        notify("task");
      });
      return;
    case "endDrains":
      yield* replica.transact((tables, notify) => {
        tables.endDrains(at.projectId);
        notify("task");
      });
      return;
    case "hold":
      yield* replica.transact((tables, notify) => {
        const row = current(tables);
        const site = tables.siteOf(at.projectId);
        if (row === null || row.heldAt === null || row.cancelRequested) return;
        if (site === null || site.deploymentId === id || !move(replica, row, "stopped")) return;
        Object.assign(site, { deploymentId: id, stopped: true, changedAt: world.postgres.now() });
        supersedeOthers(replica, tables, row);
        tables.enqueue("retire", id, `retire/${id}`, world.postgres.now());
        tables.endDrains(at.projectId);
        for (const topic of ["work", "task", "route"] as const) notify(topic);
      });
      return;
    case "activate":
      yield* replica.transact((tables, notify) => {
        const row = current(tables);
        const site = tables.siteOf(at.projectId);
        if (row === null || site === null || row.heldAt !== null || row.cancelRequested) return;
        world.checks.onActivate(row);
        site.deploymentId = id;
        site.stopped = false;
        site.changedAt = world.postgres.now();
        notify("route");
      });
      return;
    case "finish":
      yield* replica.transact((tables, notify) => {
        const row = current(tables);
        if (row === null || row.cancelRequested) return;
        if (!move(replica, row, "routed")) return;
        supersedeOthers(replica, tables, row);
        if (row.releaseAttempt > 0) tables.enqueue("retire", id, `retire/${id}`, world.postgres.now());
        notify("work");
        notify("route");
      });
      return;
    case "offerRelease": {
      const nodeId =
        at.releaseAttempt === step.attempt && at.releaseNodeId !== null
          ? at.releaseNodeId
          : yield* chooseNode(replica, at, step.attempt);
      if (nodeId === null) return void (yield* wait(pause(1_000)));
      const attemptId = releaseAttemptId(id, step.attempt);
      const run: RunValue = {
        ...{
          attemptId,
          kind: "release",
          ownerKind: "deployment",
          ownerId: id,
          projectId: at.projectId,
          state: "offered",
          cancel: false,
          token: null,
          acceptedBy: null,
        },
        ...{ exitCode: null, timedOut: false, message: null, startedAt: null, finishedAt: null },
        changedAt: process.now().toISOString(),
      };
      yield* setRun(nodeId, run, null);
      yield* seen(() => runOn(fleet, nodeId, attemptId) !== null);
      return;
    }
    case "withdrawRelease": {
      if (at.releaseNodeId === null) return;
      const nodeId = at.releaseNodeId;
      const { attemptId } = step.run;
      const found = runOn(fleet, nodeId, attemptId);
      if (found === null || found.run.state !== step.run.state) return;
      const next: RunValue = { ...step.run, state: "not_started", changedAt: process.now().toISOString() };
      yield* setRun(nodeId, next, found.modRevision);
      yield* seen(() => runOn(fleet, nodeId, attemptId)?.run.state !== step.run.state);
      return;
    }
    case "cancelRelease": {
      if (at.releaseNodeId === null) return;
      const nodeId = at.releaseNodeId;
      yield* cancelRun(replica, nodeId, step.run.attemptId);
      yield* seen(() => runOn(fleet, nodeId, step.run.attemptId)?.run.cancel !== false);
      return;
    }
    case "grantRelease": {
      if (at.releaseNodeId === null) return;
      const nodeId = at.releaseNodeId;
      const found = runOn(fleet, nodeId, step.run.attemptId);
      if (found === null || found.run.state !== "accepted") return;
      const token = `token-${process.random.int(0, 1_000_000_000)}`;
      const granted: RunValue = { ...found.run, state: "granted", token, changedAt: process.now().toISOString() };
      yield* setRun(nodeId, granted, found.modRevision);
      yield* seen(() => runOn(fleet, nodeId, step.run.attemptId)?.run.state !== "accepted");
      return;
    }
    case "recordRelease":
      yield* replica.transact((tables) => {
        const row = tables.deployments.get(id);
        const from = step.status === "running" ? ["pending"] : ["pending", "running"];
        if (row !== undefined && from.includes(row.releaseStatus)) row.releaseStatus = step.status;
      });
      return;
    case "resolveImage":
    case "createBuild":
    case "abandonTask":
    case "acceptBuild":
      throw new Error(`${id}: no ${step.do} here`);
  }
}

/** The attempt, if that node has it. */
function runOn(fleet: Replica["fleet"], nodeId: string, attemptId: string) {
  const found = fleet.findRun(attemptId);
  return found?.nodeId === nodeId ? found : null;
}

/** Which node would take the release command at this moment, or how many do not and why. */
function* placeRelease(replica: Replica, at: DeploymentRow): Work<Decision> {
  const { fleet } = replica;
  const rows = yield* replica.transact((tables) =>
    [...tables.nodes.values()]
      .filter(({ role, lifecycle }) => role === "node" && lifecycle === "active")
      .map((node) => ({ ...node })),
  );
  const placed = new Map(
    fleet
      .placements()
      .map(({ nodeId, placement, modRevision }) => [placement.placementId, { ...placement, nodeId, modRevision }]),
  );
  const observed = new Map(
    [...placed.values()].flatMap(({ placementId, nodeId }) => {
      const observation = fleet.observation(nodeId, placementId);
      return observation === null ? [] : [[placementId, observation] as const];
    }),
  );
  const request = {
    ...{ id: at.id, projectId: at.projectId, ownerId: at.id, kind: "serve" as const, specHash: "" },
    ...{
      memoryMb: 64,
      cpuMillicores: 100,
      pidsLimit: 64,
      diskMb: 0,
      platform: null,
      nodeSelector: {},
      pinnedTo: null,
      hasDockerfile: false,
    },
  };
  const taken = reservationsOf({ placed, observed, goneNodes: new Set() });
  const nodes = rows.map((row) => schedulable(replica, row));
  return place(nodes, taken, [request]).get(at.id) ?? { refused: {} };
}

function* chooseNode(replica: Replica, at: DeploymentRow, attempt: number): Work<string | null> {
  const decision = yield* placeRelease(replica, at);
  if ("refused" in decision) return null;
  const { nodeId } = decision;
  return yield* replica.transact((tables) => {
    const row = tables.deployments.get(at.id);
    if (row?.releaseStatus !== "pending" || row.releaseAttempt !== attempt - 1) return null;
    row.releaseAttempt = attempt;
    row.releaseNodeId = nodeId;
    replica.world.checks.onAttempt(
      at.id,
      releaseAttemptId(at.id, attempt),
      attempt === 1 ? null : releaseAttemptId(at.id, attempt - 1),
    );
    return nodeId;
  });
}
