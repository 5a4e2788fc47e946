import type { DatabaseEngine } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import { createLimiter } from "@svc/runtime/limiter";
import { runLoop } from "@svc/runtime/loop";
import type { Random } from "@svc/runtime/random";
import { backOffMs } from "@svc/runtime/retry";
import { pause } from "@svc/runtime/sleep";
import { createWake, type Wake } from "@svc/runtime/wake";
import { foldSamples } from "./fleet/agents/fold-samples.ts";
import type { Collector } from "./fleet/artifacts/collect.ts";
import { raiseFence } from "./fleet/cluster/fenced.ts";
import type { Fleet } from "./fleet/cluster/fleet.ts";
import { keys } from "./fleet/cluster/keys.ts";
import { clearStaleSessions } from "./fleet/cluster/stale-sessions.ts";
import { createStormWatch } from "./fleet/cluster/storm/watch.ts";
import { jobRunTopic, jobTopic, nodeTopic, routeTopic, taskTopic } from "./fleet/cluster/topics.ts";
import { drainOnce } from "./fleet/nodes/drain/drain.ts";
import { drainRows } from "./fleet/nodes/drain/store.ts";
import { createLinkHistory } from "./fleet/nodes/events/links.ts";
import { clearGone } from "./fleet/nodes/fence/fence.ts";
import { noteFenceRequired } from "./fleet/nodes/fence/required.ts";
import { lostRows } from "./fleet/nodes/fence/store.ts";
import { createKeeper } from "./fleet/replicas/keeper.ts";
import { clean, type Dirty, dirtyByKeys, dirtyByNotice } from "./fleet/routes/dirty.ts";
import type { GateSecret } from "./fleet/routes/gate.ts";
import { createPublisher } from "./fleet/routes/publisher.ts";
import { routeRows } from "./fleet/routes/rows.ts";
import { createScheduler } from "./fleet/scheduler/scheduler.ts";
import type { SchedulerMemory } from "./fleet/scheduler/score.ts";
import { schedulerRows } from "./fleet/scheduler/store.ts";
import { wakesScheduler } from "./fleet/scheduler/wakes.ts";
import { sweepRuns } from "./fleet/tasks/runs.ts";
import { keepHouse } from "./housekeeping.ts";
import type { Log } from "./log.ts";
import type { Metrics } from "./metrics/metrics.ts";
import type { Listener } from "./stores/db/listen.ts";
import type { Db } from "./stores/db/pool.ts";
import { campaign, type Etcd, type Leadership, LeadershipLost } from "./stores/etcd/index.ts";
import { countLeadership, countRounds } from "./tenants/admin/metrics/start.ts";
import { createCrashNotes } from "./tenants/crashes/notes.ts";
import { beginNightlyBackups } from "./tenants/databases/backups/schedule/nightly.ts";
import { moveFromDraining } from "./tenants/databases/changes/drain.ts";
import { enqueueNightly, enqueueSoft } from "./tenants/databases/check/nights.ts";
import type { OffsiteCopies } from "./tenants/databases/copies/offsite/round.ts";
import { enqueueCopyRound } from "./tenants/databases/copies/rounds.ts";
import { beginProofs, resumeProofs } from "./tenants/databases/proofs/store.ts";
import { upgradeServers } from "./tenants/databases/upgrades/round.ts";
import { beginCaptures } from "./tenants/deployments/screenshots/begin.ts";
import { createJobClock } from "./tenants/jobs/clock/apply.ts";
import { settlePauses } from "./tenants/jobs/definitions/pauses.ts";
import { driveJobRuns } from "./tenants/jobs/runs/round.ts";
import { enforceQuotas } from "./tenants/suspension/quota/enforce.ts";

export interface LeaderDeps {
  clock: Clock;
  random: Random;
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
  /** Deletes artifacts that nothing needs any more; without it they stay. */
  collector?: Collector;
  /** Deletes copies of base images that no build uses any more. */
  collectBaseImages?: (signal: AbortSignal) => Promise<unknown>;
  /** Deletes what no tag names any more of the images that accounts pushed. */
  sweepAccountRepositories?: (signal: AbortSignal) => Promise<unknown>;
  /** Looks after what is counted of visitors; without it nobody does. */
  keepAnalytics?: () => Promise<void>;
  /** Puts backups into a bucket outside of this site; without it there is none. */
  shipBackups?: (signal: AbortSignal) => Promise<unknown>;
  /** Puts copies of databases there as well. */
  offsiteCopies?: OffsiteCopies;
  /** Whether pictures of deployments are taken; not unless given. */
  takesScreenshots?: boolean;
  /** What servers of databases are to run in; without it they stay what they are. */
  databaseImages?: Readonly<Record<DatabaseEngine, string>>;
  /** How long requests that are under way may take once no edge sends new ones; 5 s unless given. */
  drainMs?: number;
  /** See `HouseRules`; 0 unless given. */
  previewIdleDays?: number;
  /** Whether copies of databases are kept; not unless given. */
  keepsCopies?: boolean;
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
const restMs = { scheduler: 0, routes: 20, replicas: 100, drains: 100, crashes: 500, jobRuns: 50 } as const;
/** Pauses between attempts end, and waits for room. */
const jobRunsMs = 1_000;
const housekeepingMs = 3_600_000;
const collectingMs = 60_000;
const quotasMs = 60_000;
/** How far behind the hours of what containers take are. */
const foldMs = 300_000;
/** How soon a database that did not answer is looked at again in its night. */
const databasesMs = 600_000;
const softMs = 60_000;
/** Servers of databases are brought off machines that are emptied, and to the installation's image. */
const changesMs = 5_000;
/** How soon a database that is ready has a copy begun. */
const copiesMs = 5_000;
/** How soon the next backup of a project has its turn in the night after the one before. */
const nightlyBackupsMs = 60_000;
/** How soon a backup that is complete is on its way to the bucket outside of this site. */
const offsiteMs = 15_000;
/** How soon a copy of a database that is due is looked for. */
const offsiteCopiesMs = 5_000;
/** A large one must not keep the others from their turn. */
const offsiteCopiesAtOnce = 4;
/** How soon a deployment that serves is looked at. */
const screenshotsMs = 5_000;
const linkHistoryMs = 5_000;
const analyticsMs = 60_000;
/** How soon scheduled jobs that are due begin, unless it is known when the next one is. */
const jobClockMs = 1_000;
/** How soon a changed plan reaches scheduled jobs. */
const jobPausesMs = 5_000;

/**
 * Stands for leader as long as it lives, and while it leads runs the loops of which the cluster must have
 * only one: the scheduler, the keeper of replicas, the route publisher, the notes of crashes, quotas, the collector of artifacts, and housekeeping.
 */
export function startLeader(deps: LeaderDeps): AsyncDisposable {
  const { clock, db, etcd, fleet, listener, log, serverId, gateSecret, metrics } = deps;
  const stop = new AbortController();
  const campaigning = campaign({
    etcd,
    key: keys.leader,
    id: serverId,
    ttlMs: deps.ttlMs ?? leaderTtlMs,
    signal: stop.signal,
    async lead(leadership) {
      const aWake = () => createWake(clock);
      const [tasks, routes, crashes, replicas] = [aWake(), aWake(), aWake(), aWake()];
      const [drains, fences, jobs, jobRuns, allRoutes] = [aWake(), aWake(), aWake(), aWake(), aWake()];
      const wakeAll = (...wakes: Wake[]) => {
        for (const wake of wakes) wake.signal();
      };
      const clusterEpoch = deps.clusterEpoch ?? 1;
      const publisher = createPublisher(
        { rows: routeRows(db), fleet, leadership, gateSecret, clusterEpoch, log },
        allRoutes.signal,
      );
      const noteRoutes = (dirty: Dirty): void => {
        publisher.note(dirty);
        routes.signal();
      };
      using _tasks = listener.on(taskTopic, () => wakeAll(tasks, replicas, drains));
      using _fences = listener.on(nodeTopic, fences.signal);
      using _routes = listener.on(routeTopic, (payload) => noteRoutes(dirtyByNotice(payload)));
      using _jobRuns = listener.on(jobRunTopic, jobRuns.signal);
      using _runs = fleet.onChange("runs", jobRuns.signal);
      using _jobs = listener.on(jobTopic, jobs.signal);
      using _nodes = fleet.onChange("nodes", () => {
        wakeAll(tasks, replicas);
        noteRoutes({ ...clean, everything: true });
      });
      using _placements = fleet.onChange("placements", (changes) => {
        wakeAll(crashes, replicas);
        if (wakesScheduler(changes, (nodeId, taskId) => fleet.observation(nodeId, taskId))) tasks.signal();
        noteRoutes(dirtyByKeys(changes));
      });
      using _table = fleet.onChange("routes", () => wakeAll(routes, replicas));
      using _edges = fleet.onChange("edges", () => wakeAll(replicas, drains));
      const lost = lostRows(db);
      const storms = createStormWatch({ db, fleet, leadership, leaderId: serverId, leadingSince: fleet.now(), log });
      // Between a look at the routes and the removal of a container that they do not name, none may be published that does.
      const takeTurns = createLimiter({ total: 1 });
      const { signal } = leadership;
      if (!(await takeOver(deps, leadership))) return;
      const loop = (name: string) => ({
        clock,
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
          { ...loop("scheduler"), wake: tasks, restMs: restMs.scheduler },
          createScheduler({
            ...{ clock, rows: schedulerRows(db), etcd, fleet, leadership, log, metrics },
            ...{ memory: deps.memory, windowMs },
          }),
        ),
        runLoop({ ...loop("routes"), wake: routes, restMs: restMs.routes }, () => takeTurns(publisher.publishNoted)),
        runLoop({ ...loop("all routes"), wake: allRoutes, restMs: restMs.routes }, () =>
          takeTurns(publisher.publishAll),
        ),
        runLoop(
          { ...loop("replicas"), wake: replicas, restMs: restMs.replicas },
          createKeeper({
            ...{ clock, db, etcd, fleet, leadership, storms, drainMs: deps.drainMs ?? drainMs, log, metrics },
            ...{ takeTurns, lookAgain: replicas.signal },
          }),
        ),
        runLoop({ ...loop("drains"), wake: drains, restMs: restMs.drains }, () =>
          drainOnce({ clock, drains: drainRows(db), etcd, fleet, log }),
        ),
        runLoop({ ...loop("lost nodes"), wake: fences }, async () => {
          await clearGone({ clock, lost, etcd, fleet, log });
          await clearStaleSessions({ fleet, leadership, log });
          await noteFenceRequired({ lost, fleet });
        }),
        runLoop({ ...loop("link history"), wake: aWake(), periodMs: linkHistoryMs }, createLinkHistory({ db, fleet })),
        runLoop({ ...loop("crashes"), wake: crashes, restMs: restMs.crashes }, createCrashNotes({ db, fleet, log })),
        runLoop({ ...loop("housekeeping"), wake: aWake(), periodMs: housekeepingMs }, () =>
          keepHouse(db, log, { previewIdleDays: deps.previewIdleDays ?? 0 }),
        ),
        runLoop({ ...loop("job runs"), wake: jobRuns, restMs: restMs.jobRuns, periodMs: jobRunsMs }, () =>
          driveJobRuns({ clock, db, etcd, fleet, leadership, log }),
        ),
        runLoop({ ...loop("runs"), wake: aWake(), periodMs: housekeepingMs }, async () => {
          await sweepRuns({ clock, db, etcd, log });
        }),
        runLoop({ ...loop("resources"), wake: aWake(), periodMs: foldMs }, async () => {
          await foldSamples(db);
        }),
        runLoop({ ...loop("analytics"), wake: aWake(), periodMs: analyticsMs }, async () => {
          await deps.keepAnalytics?.();
        }),
        runLoop({ ...loop("quotas"), wake: aWake(), periodMs: quotasMs }, () => enforceQuotas({ db, log })),
        runLoop(
          { ...loop("job clock"), wake: jobs, periodMs: jobClockMs },
          createJobClock({
            ...{ clock, db, epoch: leadership.epoch, log, lookAgain: jobs.signal, periodMs: jobClockMs },
          }),
        ),
        runLoop({ ...loop("job pauses"), wake: aWake(), periodMs: jobPausesMs }, async () => {
          const count = await settlePauses({ db, log });
          if (count > 0) log.info({ count }, "scheduled jobs are paused, or not any more");
        }),
        runLoop({ ...loop("databases"), wake: aWake(), periodMs: databasesMs }, async () => {
          const count = await enqueueNightly(db);
          if (count > 0) log.info({ count }, "databases are looked at tonight");
        }),
        runLoop({ ...loop("read-only databases"), wake: aWake(), periodMs: softMs }, async () => {
          await enqueueSoft(db);
        }),
        runLoop({ ...loop("database moves"), wake: aWake(), periodMs: changesMs }, () =>
          moveFromDraining({ db, random: deps.random, log }),
        ),
        runLoop({ ...loop("database upgrades"), wake: aWake(), periodMs: changesMs }, async () => {
          const { databaseImages: images } = deps;
          if (images !== undefined) await upgradeServers({ db, fleet, random: deps.random, images, log });
        }),
        runLoop({ ...loop("copies"), wake: aWake(), periodMs: copiesMs }, async () => {
          await enqueueCopyRound(db, { isWanted: deps.keepsCopies ?? false });
        }),
        runLoop({ ...loop("proofs"), wake: aWake(), periodMs: databasesMs }, async () => {
          await resumeProofs(db);
          const count = await beginProofs(db);
          if (count > 0) log.info({ count }, "copies of databases are restored for a look");
        }),
        runLoop({ ...loop("screenshots"), wake: aWake(), periodMs: screenshotsMs }, async () => {
          if (deps.takesScreenshots ?? false) await beginCaptures({ db, log });
        }),
        runLoop({ ...loop("nightly backups"), wake: aWake(), periodMs: nightlyBackupsMs }, async () => {
          const count = await beginNightlyBackups({ db, random: deps.random, log });
          if (count > 0) log.info({ count }, "scheduled backups are begun");
        }),
        runLoop({ ...loop("off-site backups"), wake: aWake(), periodMs: offsiteMs }, async () => {
          await deps.shipBackups?.(signal);
        }),
        ...Array.from({ length: offsiteCopiesAtOnce }, () =>
          runLoop({ ...loop("off-site copies"), wake: aWake(), periodMs: offsiteCopiesMs }, async () => {
            await deps.offsiteCopies?.ship(signal);
          }),
        ),
        runLoop({ ...loop("off-site objects"), wake: aWake(), periodMs: offsiteMs }, async () => {
          await deps.offsiteCopies?.tidy(signal);
        }),
        runLoop({ ...loop("artifacts"), wake: aWake(), periodMs: collectingMs }, async () => {
          await deps.collector?.round(signal);
        }),
        runLoop({ ...loop("base images"), wake: aWake(), periodMs: collectingMs }, async () => {
          await deps.collectBaseImages?.(signal);
        }),
        runLoop({ ...loop("account images"), wake: aWake(), periodMs: collectingMs }, async () => {
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
async function takeOver({ clock, random, db, log }: LeaderDeps, { epoch, signal }: Leadership): Promise<boolean> {
  for (let failures = 1; !signal.aborted; failures += 1) {
    try {
      await raiseFence(db, epoch);
      return true;
    } catch (error) {
      log.warn({ err: error }, "the leader could not take over in Postgres yet");
      await pause(clock, backOffMs(failures, takeOverBackOff, random.next()), signal);
    }
  }
  return false;
}
