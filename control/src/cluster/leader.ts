import type { Collector } from "../artifacts/collect.ts";
import { createCrashNotes } from "../crashes/notes.ts";
import type { Listener } from "../db/listen.ts";
import type { Db } from "../db/pool.ts";
import { sweepRuns } from "../deployments/runs.ts";
import { routeChannel, taskChannel } from "../deployments/store.ts";
import { campaign, type Etcd, LeadershipLost } from "../etcd/index.ts";
import type { Log } from "../log.ts";
import { enforceQuotas } from "../projects/suspension/quota/enforce.ts";
import type { GateSecret } from "../routes/gate.ts";
import { publishOnce } from "../routes/publisher.ts";
import { scheduleOnce } from "../scheduler/scheduler.ts";
import { createBell, runLoop } from "../wake.ts";
import type { Fleet } from "./fleet.ts";
import { keepHouse } from "./housekeeping.ts";
import { keys } from "./keys.ts";

export interface LeaderDeps {
  db: Db;
  etcd: Etcd;
  fleet: Fleet;
  listener: Listener;
  log: Log;
  serverId: string;
  gateSecret: GateSecret;
  /** The system's clock unless given. */
  now?: () => Date;
  /** Deletes artifacts that nothing needs any more; without it they stay. */
  collector?: Collector;
  /** See `HouseRules`; 0 unless given. */
  previewIdleDays?: number;
  /** How long after its death another may lead; 6 s unless given. */
  ttlMs?: number;
}

const leaderTtlMs = 6_000;
/** Loops are woken by what changes; the period only catches what nobody announced. */
const periodMs = 2_000;
const housekeepingMs = 3_600_000;
const collectingMs = 60_000;
const quotasMs = 60_000;

/**
 * Stands for leader as long as it lives, and while it leads runs the loops of which the cluster must have
 * only one: the scheduler, the route publisher, the notes of crashes, quotas, the collector of artifacts, and housekeeping.
 */
export function startLeader(deps: LeaderDeps): AsyncDisposable {
  const { db, etcd, fleet, listener, log, serverId, now = () => new Date(), gateSecret } = deps;
  const stop = new AbortController();
  const campaigning = campaign({
    etcd,
    key: keys.leader,
    id: serverId,
    ttlMs: deps.ttlMs ?? leaderTtlMs,
    signal: stop.signal,
    async lead(leadership) {
      const [tasks, routes, crashes] = [createBell(), createBell(), createBell()];
      using _tasks = listener.on(taskChannel, tasks.ring);
      using _routes = listener.on(routeChannel, routes.ring);
      using _nodes = fleet.onChange("nodes", tasks.ring);
      using _placements = fleet.onChange("placements", () => {
        tasks.ring();
        routes.ring();
        crashes.ring();
      });
      using _table = fleet.onChange("routes", routes.ring);
      const { signal } = leadership;
      const loop = (name: string) => ({
        periodMs,
        signal,
        onError: (error: unknown) => {
          if (!(error instanceof LeadershipLost)) log.warn({ err: error, loop: name }, "a round failed");
        },
      });
      await Promise.all([
        runLoop({ ...loop("scheduler"), bell: tasks }, () => scheduleOnce({ db, etcd, fleet, leadership, log })),
        runLoop({ ...loop("routes"), bell: routes }, () => publishOnce({ db, fleet, leadership, gateSecret, log })),
        runLoop({ ...loop("crashes"), bell: crashes }, createCrashNotes({ db, fleet, log })),
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
