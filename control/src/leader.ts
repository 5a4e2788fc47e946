import type { DatabaseEngine } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import { runLoop } from "@svc/runtime/loop";
import type { Random } from "@svc/runtime/random";
import { createWake } from "@svc/runtime/wake";
import { foldSamples } from "./fleet/agents/fold-samples.ts";
import type { Collector } from "./fleet/artifacts/collect.ts";
import { raiseFence } from "./fleet/cluster/fenced.ts";
import type { Fleet } from "./fleet/cluster/fleet.ts";
import { keys } from "./fleet/cluster/keys.ts";
import { takeOver } from "./fleet/cluster/take-over.ts";
import { fleetRows, leadFleet } from "./fleet/leading.ts";
import type { GateSecret } from "./fleet/routes/gate.ts";
import type { SchedulerMemory } from "./fleet/scheduler/score.ts";
import { sweepRuns } from "./fleet/tasks/runs.ts";
import { keepHouse } from "./housekeeping.ts";
import type { Log } from "./log.ts";
import type { Metrics } from "./metrics/metrics.ts";
import type { Listener } from "./stores/db/listen.ts";
import type { Db } from "./stores/db/pool.ts";
import { campaign, type Etcd, LeadershipLost } from "./stores/etcd/index.ts";
import { countLeadership, countRounds } from "./tenants/admin/metrics/start.ts";
import { createCrashNotes } from "./tenants/crashes/notes.ts";
import { leadNightlyBackups } from "./tenants/databases/backups/schedule/nightly.ts";
import { nightRows } from "./tenants/databases/backups/schedule/rows.ts";
import { moveFromDraining } from "./tenants/databases/changes/drain.ts";
import { enqueueNightly, enqueueSoft } from "./tenants/databases/check/nights.ts";
import type { OffsiteCopies } from "./tenants/databases/copies/offsite/round.ts";
import { enqueueCopyRound } from "./tenants/databases/copies/rounds.ts";
import { beginProofs, resumeProofs } from "./tenants/databases/proofs/store.ts";
import { upgradeServers } from "./tenants/databases/upgrades/round.ts";
import { beginCaptures } from "./tenants/deployments/screenshots/begin.ts";
import { jobRows, leadJobs } from "./tenants/jobs/leading.ts";
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
/** Loops are woken by what changes; the period only catches what nobody announced. */
const periodMs = 2_000;
/** That looks at everything, and rests after each round, so that a burst of changes is not as many rounds. */
const crashesRestMs = 500;
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
/** How soon a backup that is complete is on its way to the bucket outside of this site. */
const offsiteMs = 15_000;
/** How soon a copy of a database that is due is looked for. */
const offsiteCopiesMs = 5_000;
/** A large one must not keep the others from their turn. */
const offsiteCopiesAtOnce = 4;
/** How soon a deployment that serves is looked at. */
const screenshotsMs = 5_000;
const analyticsMs = 60_000;

/**
 * Stands for leader as long as it lives, and while it leads runs the loops of which the cluster must have
 * only one: those of `leadFleet` and `leadJobs`, the notes of crashes, quotas, the collector of artifacts, and housekeeping.
 */
export function startLeader(deps: LeaderDeps): AsyncDisposable {
  const { clock, db, etcd, fleet, listener, log, serverId, metrics } = deps;
  const stop = new AbortController();
  const campaigning = campaign({
    etcd,
    key: keys.leader,
    id: serverId,
    ttlMs: deps.ttlMs ?? leaderTtlMs,
    signal: stop.signal,
    async lead(leadership) {
      const leadingSince = fleet.now();
      const aWake = () => createWake(clock);
      const crashes = aWake();
      using _placements = fleet.onChange("placements", crashes.signal);
      const { signal } = leadership;
      const raise = (epoch: bigint) => raiseFence(db, epoch);
      if (!(await takeOver({ clock, random: deps.random, raise, log }, leadership))) return;
      const heardBy = (name: string) => ({
        ...(metrics && { onRound: countRounds(metrics, name) }),
        onError: (error: unknown) => {
          if (!(error instanceof LeadershipLost)) log.warn({ err: error, loop: name }, "a round failed");
        },
      });
      const loop = (name: string) => ({ clock, periodMs, signal, ...heardBy(name) });
      using _leading = countLeadership(metrics);
      using stack = new DisposableStack();
      stack.defer(() => {
        if (deps.memory !== undefined) deps.memory.hints = null;
      });
      await Promise.all([
        leadFleet({
          ...{ clock, rows: fleetRows(db), etcd, fleet, leadership, leaderId: serverId, leadingSince, listener },
          ...{ gateSecret: deps.gateSecret, clusterEpoch: deps.clusterEpoch ?? 1, drainMs: deps.drainMs },
          ...{ log, metrics, memory: deps.memory, heardBy },
        }),
        leadJobs({ clock, rows: jobRows(db), etcd, fleet, leadership, listener, log, heardBy }),
        runLoop({ ...loop("crashes"), wake: crashes, restMs: crashesRestMs }, createCrashNotes({ db, fleet, log })),
        runLoop({ ...loop("housekeeping"), wake: aWake(), periodMs: housekeepingMs }, () =>
          keepHouse(db, log, { previewIdleDays: deps.previewIdleDays ?? 0 }),
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
        leadNightlyBackups({ clock, rows: nightRows(db), random: deps.random, leadership, log, heardBy }),
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
