import type { Collector } from "../artifacts/collect.ts";
import { createCrashNotes } from "../crashes/notes.ts";
import type { Listener } from "../db/listen.ts";
import type { Db } from "../db/pool.ts";
import { sweepRuns } from "../deployments/runs.ts";
import { routeChannel, taskChannel } from "../deployments/store.ts";
import { backOffMs } from "../etcd/back-off.ts";
import { pause } from "../etcd/clock.ts";
import { campaign, type Etcd, type Leadership, LeadershipLost } from "../etcd/index.ts";
import { nodeChannel } from "../link/roll-call.ts";
import { createLimiter } from "../link/serial.ts";
import type { Log } from "../log.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { countLeadership, countRounds } from "../metrics/start.ts";
import { drainOnce } from "../nodes/drain/drain.ts";
import { createLinkHistory } from "../nodes/events/links.ts";
import { clearGone } from "../nodes/fence/fence.ts";
import { noteFenceRequired } from "../nodes/fence/required.ts";
import { enforceQuotas } from "../projects/suspension/quota/enforce.ts";
import { createKeeper } from "../replicas/keeper.ts";
import type { GateSecret } from "../routes/gate.ts";
import { publishOnce } from "../routes/publisher.ts";
import { createScheduler } from "../scheduler/scheduler.ts";
import type { SchedulerMemory } from "../scheduler/score.ts";
import { type Bell, createBell, runLoop } from "../wake.ts";
import { raiseFence } from "./fenced.ts";
import type { Fleet } from "./fleet.ts";
import { keepHouse } from "./housekeeping.ts";
import { keys } from "./keys.ts";
import { clearLeft } from "./left-sessions.ts";
import { createStormWatch } from "./storm/watch.ts";

export interface LeaderDeps {
  db: Db;
  etcd: Etcd;
  fleet: Fleet;
  listener: Listener;
  log: Log;
  serverId: string;
  gateSecret: GateSecret;
  /** 1 unless given. */
  clusterEpoch?: number;
  metrics?: Metrics;
  /** The system's clock unless given. */
  now?: () => Date;
  /** Deletes artifacts that nothing needs any more; without it they stay. */
  collector?: Collector;
  /** Deletes copies of base images that no build uses any more. */
  collectBaseImages?: (signal: AbortSignal) => Promise<unknown>;
  /** Deletes what no tag names any more of the images that accounts pushed. */
  sweepAccountRepositories?: (signal: AbortSignal) => Promise<unknown>;
  /** How long requests that are under way may take once no edge sends new ones; 5 s unless given. */
  drainMs?: number;
  /** See `HouseRules`; 0 unless given. */
  previewIdleDays?: number;
  /** Filled while this replica leads. */
  memory?: SchedulerMemory;
  /** How long after its death another may lead; 6 s unless given. */
  ttlMs?: number;
}

const leaderTtlMs = 6_000;
/** What is asked for within this time is placed in one round. */
const windowMs = 20;
const drainMs = 5_000;
/** Loops are woken by what changes; the period only catches what nobody announced. */
const periodMs = 2_000;
/** Loops that look at everything rest after each round, so that a burst of changes is not as many rounds. */
const restMs = { scheduler: 0, routes: 20, replicas: 100, drains: 100, crashes: 500 } as const;
const housekeepingMs = 3_600_000;
const collectingMs = 60_000;
const quotasMs = 60_000;
const linkHistoryMs = 5_000;

/**
 * Stands for leader as long as it lives, and while it leads runs the loops of which the cluster must have
 * only one: the scheduler, the keeper of replicas, the route publisher, the notes of crashes, quotas, the collector of artifacts, and housekeeping.
 */
export function startLeader(deps: LeaderDeps): AsyncDisposable {
  const { db, etcd, fleet, listener, log, serverId, now = () => new Date(), gateSecret, metrics } = deps;
  const stop = new AbortController();
  const campaigning = campaign({
    etcd,
    key: keys.leader,
    id: serverId,
    ttlMs: deps.ttlMs ?? leaderTtlMs,
    signal: stop.signal,
    async lead(leadership) {
      const [tasks, routes, crashes, replicas] = [createBell(), createBell(), createBell(), createBell()];
      const ring = (...bells: Bell[]) => {
        for (const bell of bells) bell.ring();
      };
      const [drains, fences] = [createBell(), createBell()];
      using _tasks = listener.on(taskChannel, () => ring(tasks, replicas, drains));
      using _fences = listener.on(nodeChannel, fences.ring);
      using _routes = listener.on(routeChannel, routes.ring);
      using _nodes = fleet.onChange("nodes", () => ring(tasks, routes, replicas));
      using _placements = fleet.onChange("placements", () => ring(tasks, routes, crashes, replicas));
      using _table = fleet.onChange("routes", () => ring(routes, replicas));
      using _edges = fleet.onChange("edges", replicas.ring);
      // Ages are told by the clock of the fleet, which nobody sets.
      const steady = fleet.now;
      const storms = createStormWatch({
        ...{ db, fleet, leadership, leaderId: serverId, leadingSince: steady(), log, now: steady },
      });
      // Between a look at the routes and the removal of a container that they do not name, none may be published that does.
      const takeTurns = createLimiter(1);
      const { signal } = leadership;
      if (!(await takeOver(db, leadership, log))) return;
      const loop = (name: string) => ({
        periodMs,
        signal,
        ...(metrics && { onRound: countRounds(metrics, name) }),
        onError: (error: unknown) => {
          if (!(error instanceof LeadershipLost)) log.warn({ err: error, loop: name }, "a round failed");
        },
      });
      using _leading = countLeadership(metrics);
      using stack = new DisposableStack();
      stack.defer(() => {
        if (deps.memory !== undefined) deps.memory.hints = null;
      });
      await Promise.all([
        runLoop(
          { ...loop("scheduler"), bell: tasks, restMs: restMs.scheduler },
          createScheduler({ db, etcd, fleet, leadership, log, metrics, memory: deps.memory, now: steady, windowMs }),
        ),
        runLoop({ ...loop("routes"), bell: routes, restMs: restMs.routes }, () =>
          takeTurns(() =>
            publishOnce({ db, fleet, leadership, gateSecret, clusterEpoch: deps.clusterEpoch ?? 1, log, now: steady }),
          ),
        ),
        runLoop(
          { ...loop("replicas"), bell: replicas, restMs: restMs.replicas },
          createKeeper({
            ...{ db, etcd, fleet, leadership, storms, drainMs: deps.drainMs ?? drainMs, log, metrics },
            ...{ takeTurns, lookAgain: replicas.ring },
          }),
        ),
        runLoop({ ...loop("drains"), bell: drains, restMs: restMs.drains }, () =>
          drainOnce({ db, etcd, fleet, log, now }),
        ),
        runLoop({ ...loop("lost nodes"), bell: fences }, async () => {
          await clearGone({ db, etcd, fleet, log, now });
          await clearLeft({ fleet, leadership, log });
          await noteFenceRequired({ db, fleet });
        }),
        runLoop(
          { ...loop("link history"), bell: createBell(), periodMs: linkHistoryMs },
          createLinkHistory({ db, fleet }),
        ),
        runLoop({ ...loop("crashes"), bell: crashes, restMs: restMs.crashes }, createCrashNotes({ db, fleet, log })),
        runLoop({ ...loop("housekeeping"), bell: createBell(), periodMs: housekeepingMs }, () =>
          keepHouse(db, log, { previewIdleDays: deps.previewIdleDays ?? 0 }),
        ),
        runLoop({ ...loop("release attempts"), bell: createBell(), periodMs: housekeepingMs }, () =>
          sweepRuns({ db, etcd, now }),
        ),
        runLoop({ ...loop("quotas"), bell: createBell(), periodMs: quotasMs }, () => enforceQuotas({ db, log })),
        runLoop({ ...loop("artifacts"), bell: createBell(), periodMs: collectingMs }, async () => {
          await deps.collector?.round(signal);
        }),
        runLoop({ ...loop("base images"), bell: createBell(), periodMs: collectingMs }, async () => {
          await deps.collectBaseImages?.(signal);
        }),
        runLoop({ ...loop("account images"), bell: createBell(), periodMs: collectingMs }, async () => {
          await deps.sweepAccountRepositories?.(signal);
        }),
      ]);
    },
  });
  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      await campaigning;
    },
  };
}

const takeOverBackOff = { firstMs: 100, maxMs: 5_000 };

/** Ends what earlier leaders may still commit. False when the leadership ended before that was done. */
async function takeOver(db: Db, { epoch, signal }: Leadership, log: Log): Promise<boolean> {
  for (let failures = 1; !signal.aborted; failures += 1) {
    try {
      await raiseFence(db, epoch);
      return true;
    } catch (error) {
      log.warn({ err: error }, "the leader could not take over in Postgres yet");
      await pause(backOffMs(failures, takeOverBackOff, Math.random()), signal);
    }
  }
  return false;
}
