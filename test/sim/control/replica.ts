import { watchCutOff } from "@svc/control/fleet/cluster/cut-off";
import { createFleet, type Fleet } from "@svc/control/fleet/cluster/fleet";
import { keys } from "@svc/control/fleet/cluster/keys";
import { announceServer } from "@svc/control/fleet/cluster/presence";
import { type ClusterViews, watchCluster } from "@svc/control/fleet/cluster/views";
import { createStreams, type Streams } from "@svc/control/fleet/daemons/streams";
import { requireRecovered } from "@svc/control/fleet/recovery/check";
import { defaultTimings } from "@svc/control/fleet/sessions/timings";
import { campaign } from "@svc/control/stores/etcd/campaign";
import type { Etcd } from "@svc/control/stores/etcd/client";
import { EtcdError } from "@svc/control/stores/etcd/errors";
import { type Process, pause, type Scope, type Work, wait, waitFor } from "../kernel/kernel.ts";
import { enter, promiseOf, virtualClock, virtualRandom } from "../kernel/ports.ts";
import { virtualLog } from "../machines/log.ts";
import { createVirtualEtcd, EtcdPath } from "../stores/etcd-path.ts";
import { DatabaseError, type Notify, type Tables } from "../stores/postgres.ts";
import { Writers } from "../stores/writers.ts";
import type { World } from "../world/world.ts";
import { lead } from "./leader.ts";
import { type Ask, registryHost, virtualListener, virtualLoads, virtualRows } from "./rows.ts";
import { topics } from "./transact.ts";
import { startWork } from "./workers.ts";

const leaderTtlMs = 6_000;

/** Longer than any world goes on. */
const longMs = 86_400_000;

/**
 * One replica of control: what it knows of the cluster, the streams of daemons and what it does as leader are the product's; what
 * works is a shell that was written again. Everything that it knows goes with its process.
 */
export class Replica {
  readonly process: Process;
  readonly path: EtcdPath;
  /** Of the newest life; there is none before the first. */
  views!: ClusterViews;
  fleet!: Fleet;
  streams: Streams | null = null;
  clusterEpoch = 1;
  /** Until then Postgres does not hear it. */
  databaseCutUntilMs = 0;
  isReady = false;
  /** Whether etcd answers others and not this one. */
  isCutOff = (): boolean => false;
  private isAnnounced = (): boolean => false;
  isLeading = (): boolean => false;
  /** Another one with every start, as in the real one. */
  id: string;
  private lives = 0;
  /** When it last ended, in true time. */
  endedAtMs = Number.NEGATIVE_INFINITY;
  /** Of the newest life, as the fleet. */
  etcd!: Etcd;
  listener!: ReturnType<typeof virtualListener>;

  readonly world: World;
  readonly name: string;

  constructor(world: World, name: string, clock: { drift: number; wallOffsetMs: number }) {
    this.world = world;
    this.name = name;
    this.id = name;
    this.process = world.newProcess(name, clock);
    this.process.alive = false;
    this.path = new EtcdPath(world.kernel, world.etcd, this.process, world.trouble.etcd);
    this.process.onUncaught = (error) => world.checks.onUncaught(this.id, error);
  }

  get scope(): Scope {
    return this.process.scope;
  }

  start(): void {
    if (this.process.alive || this.world.isRestoring) return;
    this.process.start();
    this.lives += 1;
    this.id = `${this.name}.${this.lives}`;
    this.streams = null;
    this.isReady = false;
    this.isAnnounced = this.isLeading = () => false;
    const { world, scope, process } = this;
    const clock = virtualClock(process);
    const log = virtualLog(process);
    this.listener = virtualListener(process);
    enter(process, () => {
      const etcd = createVirtualEtcd(this.path, log, new Writers(this.id, world.checks.etcd.sessionOf).of);
      this.etcd = etcd;
      this.views = watchCluster(etcd, log);
      this.fleet = createFleet(this.views, clock);
      // Whatever may fail in it is tried again for as long as this.
      void this.views.ready(longMs).then(() => scope.spawn(this.begin()));
    });
    const heard: Notify = (topic, payload) => this.listener.hear(topics[topic], payload);
    world.postgres.listeners.add({ process, life: process.life, heard });
  }

  private *begin(): Work {
    this.clusterEpoch = yield* this.insist((tables) => tables.clusterEpoch);
    yield* this.requireRecovered();
    enter(this.process, () => {
      this.isCutOff = this.watchCutOff();
      this.streams = this.openStreams();
    });
    this.isReady = true;
    enter(this.process, () => {
      this.announce();
      startWork(this);
      void campaign({
        ...{ etcd: this.etcd, key: keys.leader, id: this.id, ttlMs: leaderTtlMs, signal: new AbortController().signal },
        lead: (leadership) => lead(this, leadership),
      });
    });
  }

  /** The operator has done the step, so nothing is to be refused. */
  private *requireRecovered(): Work {
    const lastDecision = () => this.ask(({ leaderFence }) => leaderFence);
    for (;;) {
      try {
        return yield* wait(waitFor(() => requireRecovered(lastDecision, this.etcd)));
      } catch (error) {
        if (!(error instanceof EtcdError || error instanceof DatabaseError)) throw error;
        yield* wait(pause(500));
      }
    }
  }

  private announce(): void {
    const { etcd, process, id: serverId } = this;
    const { isAnnounced } = announceServer({
      ...{ clock: virtualClock(process), etcd, log: virtualLog(process), serverId },
      ...{ startedAt: process.now(), masterKeyIds: [], address: null },
    });
    this.isAnnounced = isAnnounced;
  }

  /** Whether it takes a key that a lease of its own keeps for there. */
  countsOn(key: string): boolean {
    if (!this.process.alive) return false;
    return key === keys.leader ? this.isLeading() : key === keys.server(this.id) && this.isAnnounced();
  }

  private watchCutOff(): () => boolean {
    const { process, listener, id: serverId } = this;
    const cutOff = watchCutOff({
      ...{ clock: virtualClock(process), log: virtualLog(process), listener, serverId },
      notify: (_topic, payload) => this.ask((_tables, notify) => notify("replica", payload)),
      isAnnounced: () => this.isAnnounced(),
    });
    return () => cutOff.isCutOff;
  }

  /** Every stream of this life. */
  private openStreams(): Streams {
    const { process, etcd, listener, views, id: serverId, clusterEpoch: epoch } = this;
    return createStreams({
      ...{ etcd, views, serverId, listener, timings: defaultTimings },
      ...{ clock: virtualClock(process), random: virtualRandom(process), log: virtualLog(process) },
      authority: { clusterId: "cluster", epoch },
      isCutOff: this.isCutOff,
      // Nobody replaces authorities here.
      leaves: { require: async () => {} },
      registry: { host: registryHost },
      rows: virtualRows(this.ask),
      loads: virtualLoads(this.ask, { views, now: this.world.postgres.now }),
      certificates: null,
      tunnels: { holders: () => [], endOf() {} },
      stopping: new AbortController().signal,
    });
  }

  /** `transact` for code that awaits promises. */
  readonly ask: Ask = (work) =>
    promiseOf(
      this.scope,
      this.world.postgres.transact(this.process, () => this.databaseCutUntilMs, work),
    );

  *transact<T>(work: (tables: Tables, notify: Notify) => T): Work<T> {
    return yield* wait(this.world.postgres.transact(this.process, () => this.databaseCutUntilMs, work));
  }

  /** Repeats until the database answers. */
  *insist<T>(work: (tables: Tables, notify: Notify) => T): Work<T> {
    for (;;) {
      try {
        return yield* this.transact(work);
      } catch (error) {
        if (!(error instanceof DatabaseError)) throw error;
        yield* wait(pause(500));
      }
    }
  }

  crash(isNoticed: boolean): void {
    if (!this.process.alive) return;
    this.endedAtMs = this.world.kernel.nowMs;
    this.process.kill();
    this.path.forget();
    for (const each of this.world.postgres.listeners) {
      if (each.process === this.process) this.world.postgres.listeners.delete(each);
    }
    this.world.breakConnections(this.process, isNoticed);
  }
}
