import type { Clock } from "@svc/runtime/clock";
import { createLimiter } from "@svc/runtime/limiter";
import { type LoopOptions, runLoop } from "@svc/runtime/loop";
import { createWake, type Wake } from "@svc/runtime/wake";
import type { Log } from "../log.ts";
import type { Metrics } from "../metrics/metrics.ts";
import type { Listener } from "../stores/db/listen.ts";
import type { Db } from "../stores/db/pool.ts";
import type { Etcd, Leadership } from "../stores/etcd/index.ts";
import type { Fleet } from "./cluster/fleet.ts";
import { clearStaleSessions } from "./cluster/stale-sessions.ts";
import { type StormRows, stormRows } from "./cluster/storm/store.ts";
import { createStormWatch } from "./cluster/storm/watch.ts";
import { nodeTopic, routeTopic, taskTopic } from "./cluster/topics.ts";
import { type FailedServerRows, failedServerRows, lookAtFailed } from "./databases/failed.ts";
import { drainOnce } from "./nodes/drain/drain.ts";
import { type DrainRows, drainRows } from "./nodes/drain/store.ts";
import { type LinkRows, linkRows } from "./nodes/events/link-rows.ts";
import { createLinkHistory } from "./nodes/events/links.ts";
import { clearGone } from "./nodes/fence/fence.ts";
import { noteFenceRequired } from "./nodes/fence/required.ts";
import { type LostRows, lostRows } from "./nodes/fence/store.ts";
import { createKeeper } from "./replicas/keeper.ts";
import { type ReplicaRows, replicaRows } from "./replicas/rows.ts";
import { type Dirty, dirtyByKeys, dirtyByNodes, dirtyByNotice } from "./routes/dirty.ts";
import type { GateSecret } from "./routes/gate.ts";
import { createPublisher } from "./routes/publisher.ts";
import { type RouteRows, routeRows } from "./routes/rows.ts";
import { createScheduler } from "./scheduler/scheduler.ts";
import type { SchedulerMemory } from "./scheduler/score.ts";
import { type SchedulerRows, schedulerRows } from "./scheduler/store.ts";
import { wakesScheduler } from "./scheduler/wakes.ts";

/** What is asked of Postgres, by who asks. */
export interface FleetRows {
  scheduler: SchedulerRows;
  routes: RouteRows;
  replicas: ReplicaRows;
  drains: DrainRows;
  lost: LostRows;
  storms: StormRows;
  links: LinkRows;
  failed: FailedServerRows;
}

export const fleetRows = (db: Db): FleetRows => ({
  ...{ scheduler: schedulerRows(db), routes: routeRows(db), replicas: replicaRows(db), drains: drainRows(db) },
  ...{ lost: lostRows(db), storms: stormRows(db), links: linkRows(db) },
  failed: failedServerRows(db),
});

export interface LeadFleetDeps {
  clock: Clock;
  rows: FleetRows;
  etcd: Etcd;
  fleet: Fleet;
  leadership: Leadership;
  /** Which replica leads, and since when by the fleet's clock. */
  leaderId: string;
  leadingSince: Date;
  listener: Pick<Listener, "on">;
  gateSecret: GateSecret;
  clusterEpoch: number;
  /** How long requests that are under way may take once no edge sends new ones; 5 s unless given. */
  drainMs?: number | undefined;
  log: Log;
  metrics?: Metrics | undefined;
  memory?: SchedulerMemory | undefined;
  /** Who hears of the rounds of a loop. */
  heardBy: (loop: string) => Pick<LoopOptions, "onError" | "onRound">;
}

/** What is asked for within this time is placed in one round. */
const windowMs = 20;
const drainMs = 5_000;
/** Loops are woken by what changes; the period only catches what nobody announced. */
const periodMs = 2_000;
/** Loops that look at everything rest after each round, so that a burst of changes is not as many rounds. */
const restMs = { scheduler: 0, routes: 20, replicas: 100, drains: 100 } as const;
const linkHistoryMs = 5_000;
/** How soon it is noticed that a database is without a server. */
const failedServersMs = 10_000;

/**
 * Decides for the fleet until the leadership ends: places containers, keeps sites at their number of them, publishes routes,
 * empties machines and gives up lost ones. Whoever leads takes over first.
 */
export async function leadFleet(deps: LeadFleetDeps): Promise<void> {
  const { clock, rows, etcd, fleet, leadership, listener, log, metrics } = deps;
  const { signal } = leadership;
  const aWake = () => createWake(clock);
  const [tasks, routes, allRoutes, replicas] = [aWake(), aWake(), aWake(), aWake()];
  const [drains, fences] = [aWake(), aWake()];
  const wakeAll = (...wakes: Wake[]) => {
    for (const wake of wakes) wake.signal();
  };
  const publisher = createPublisher({ ...deps, rows: rows.routes }, allRoutes.signal);
  const noteRoutes = (dirty: Dirty): void => {
    publisher.note(dirty);
    routes.signal();
  };
  using _tasks = listener.on(taskTopic, () => wakeAll(tasks, replicas, drains));
  using _fences = listener.on(nodeTopic, fences.signal);
  using _routes = listener.on(routeTopic, (payload) => noteRoutes(dirtyByNotice(payload)));
  using _nodes = fleet.onChange("nodes", (changes) => {
    wakeAll(tasks, replicas);
    noteRoutes(dirtyByNodes(changes, fleet.placedOn));
  });
  using _placements = fleet.onChange("placements", (changes) => {
    wakeAll(replicas);
    if (wakesScheduler(changes, (nodeId, taskId) => fleet.observation(nodeId, taskId))) tasks.signal();
    noteRoutes(dirtyByKeys(changes));
  });
  const storms = createStormWatch({ ...deps, rows: rows.storms });
  // Between a look at the routes and the removal of a container that they do not name, none may be published that does.
  const takeTurns = createLimiter({ total: 1 });
  const keeper = createKeeper({
    ...{ clock, rows: rows.replicas, etcd, fleet, leadership, storms, drainMs: deps.drainMs ?? drainMs, log },
    ...{ metrics, takeTurns, lookAgain: replicas.signal },
  });
  // Its round looks at every site, and there are many tables a second.
  const wakeKeeper = () => {
    if (keeper.isAnyLeaving()) replicas.signal();
  };
  using _table = fleet.onChange("routes", () => {
    routes.signal();
    wakeKeeper();
  });
  using _edges = fleet.onChange("edges", () => {
    drains.signal();
    wakeKeeper();
  });
  const loop = (name: string) => ({ clock, periodMs, signal, ...deps.heardBy(name) });
  await Promise.all([
    runLoop(
      { ...loop("scheduler"), wake: tasks, restMs: restMs.scheduler },
      createScheduler({
        ...{ clock, rows: rows.scheduler, etcd, fleet, leadership, log, metrics },
        ...{ memory: deps.memory, windowMs },
      }),
    ),
    runLoop({ ...loop("routes"), wake: routes, restMs: restMs.routes }, () => takeTurns(publisher.publishNoted)),
    runLoop({ ...loop("all routes"), wake: allRoutes, restMs: restMs.routes }, () => takeTurns(publisher.publishAll)),
    runLoop({ ...loop("replicas"), wake: replicas, restMs: restMs.replicas }, keeper.keep),
    runLoop({ ...loop("drains"), wake: drains, restMs: restMs.drains }, () =>
      drainOnce({ clock, drains: rows.drains, etcd, fleet, log }),
    ),
    runLoop({ ...loop("lost nodes"), wake: fences }, async () => {
      await clearGone({ clock, lost: rows.lost, etcd, fleet, log });
      await clearStaleSessions({ fleet, leadership, log });
      await noteFenceRequired({ lost: rows.lost, fleet });
    }),
    runLoop(
      { ...loop("link history"), wake: aWake(), periodMs: linkHistoryMs },
      createLinkHistory({ rows: rows.links, fleet }),
    ),
    runLoop(
      { ...loop("failed servers"), wake: aWake(), periodMs: failedServersMs },
      lookAtFailed({ rows: rows.failed, fleet }),
    ),
  ]);
}
