import { keys } from "@svc/control/fleet/cluster/keys";
import { nodeTopic, routeTopic, taskTopic } from "@svc/control/fleet/cluster/topics";
import { defaultTimings } from "@svc/control/fleet/sessions/timings";
import { EtcdError, UnknownOutcome } from "@svc/control/stores/etcd/errors";
import { createBell, type Process, pause, type Scope, type Work, wait } from "../kernel/kernel.ts";
import { enter } from "../kernel/ports.ts";
import { EtcdClient } from "../stores/etcd-client.ts";
import { campaign, grantLease } from "../stores/etcd-lease.ts";
import { DatabaseError, type Notify, type Tables } from "../stores/postgres.ts";
import type { World } from "../world/world.ts";
import { Fleet } from "./fleet.ts";
import { lead } from "./leader/leader.ts";
import { endLostSessions, type LiveSession } from "./sessions/session.ts";
import { startWorkers } from "./workers.ts";

const serverTtlMs = 6_000;
const leaderTtlMs = 6_000;

/** One replica of control: owner of sessions, candidate for leader, worker. Everything it knows goes with its process. */
export class Replica {
  readonly process: Process;
  readonly client: EtcdClient;
  roster = new Map<string, LiveSession>();
  fleet: Fleet;
  clusterEpoch = 1;
  /** Until then Postgres does not hear it. */
  databaseCutUntilMs = 0;
  isReady = false;
  leads = false;
  /** Another one with every start, as in the real one. */
  id: string;
  private lives = 0;
  readonly bells = { work: createBell() };
  /** Who hears what the database tells, by topic; of this life. */
  private heardBy = new Map<string, Set<(about: string) => void>>();

  readonly world: World;
  readonly name: string;

  constructor(world: World, name: string, clock: { drift: number; wallOffsetMs: number }) {
    this.world = world;
    this.name = name;
    this.id = name;
    this.process = world.newProcess(name, clock);
    this.process.alive = false;
    this.client = new EtcdClient(world.kernel, world.etcd, this.process, world.trouble.etcd, world.cores);
    this.fleet = new Fleet(this.client, world.values, this.process.scope);
    this.process.scope.drop();
    this.client.forget();
  }

  get scope(): Scope {
    return this.process.scope;
  }

  start(): void {
    if (this.process.alive || this.world.isRestoring) return;
    this.process.start();
    this.lives += 1;
    this.id = `${this.name}.${this.lives}`;
    this.roster = new Map();
    this.heardBy = new Map();
    this.isReady = false;
    this.leads = false;
    const { world, scope, process } = this;
    this.fleet = new Fleet(this.client, world.values, scope);
    const heard: Notify = (topic) => {
      const leaders = { task: taskTopic, route: routeTopic, node: nodeTopic, work: "" }[topic];
      for (const each of this.heardBy.get(leaders) ?? []) enter(process, () => each(""));
      if (topic === "work") this.bells.work.ring();
      if (topic === "node") this.rollCall();
    };
    world.postgres.listeners.add({ process, life: process.life, heard });
    scope.spawn(this.begin());
  }

  private *begin(): Work {
    const { world, scope } = this;
    this.clusterEpoch = yield* this.insist((tables) => tables.clusterEpoch);
    while (!this.fleet.isReady) yield* wait(pause(50));
    this.fleet.hasLooked = true;
    yield* this.requireRecovered();
    endLostSessions(this);
    this.isReady = true;
    scope.spawn(this.announce());
    scope.spawn(this.keepRoll());
    scope.spawn(this.lookAfterStreams());
    startWorkers(this);
    campaign({
      client: this.client,
      key: keys.leader,
      id: this.id,
      valueOf: (id) => world.values.textOf(id),
      ttlMs: leaderTtlMs,
      scope,
      held: world.heldLeases,
      lead: (leadership) => lead(this, leadership),
    });
  }

  /** Mirrors `control/src/fleet/recovery/check.ts`. The operator has done the step, so nothing is to be refused. */
  private *requireRecovered(): Work {
    for (;;) {
      try {
        // In this order: whoever is elected in between has decided on what is later than the one that is read first.
        const fence = yield* this.insist((tables) => tables.leaderFence);
        const { revision } = yield* this.client.range(keys.leader);
        if (fence <= revision) return;
        throw new Error(`${this.id} refuses to serve: etcd is at ${revision}, and ${fence} has decided`);
      } catch (error) {
        if (!(error instanceof EtcdError)) throw error;
        yield* wait(pause(500));
      }
    }
  }

  private *announce(): Work {
    const { client, world, id } = this;
    for (;;) {
      try {
        const lease = yield* grantLease(client, serverTtlMs, this.scope, world.heldLeases);
        const value = world.values.textOf({ serverId: id });
        const put = { put: { key: keys.server(id), value, leaseId: lease.id } };
        yield* wait(client.txn({ guards: [], ops: [put], writer: { by: "server", serverId: id } }));
        const bell = createBell();
        lease.onLost(bell.ring);
        while (!lease.isOver) yield* wait(bell.wait(60_000));
      } catch (error) {
        if (!(error instanceof EtcdError || error instanceof UnknownOutcome)) throw error;
      }
      yield* wait(pause(500));
    }
  }

  private *lookAfterStreams(): Work {
    const { process } = this;
    for (;;) {
      yield* wait(pause(1_000));
      for (const session of [...this.roster.values()]) {
        const { stream } = session;
        if (stream.connection.stuckMs("back") >= defaultTimings.stuckAfterMs) {
          stream.close({ why: "go away", reconnectAfterMs: defaultTimings.renewEveryMs, reason: "stuck" });
        } else if (stream.renewedAtMs !== null) session.noteSilence(process.monoMs() - stream.renewedAtMs);
      }
    }
  }

  private *keepRoll(): Work {
    for (;;) {
      yield* wait(pause(defaultTimings.rollCallEveryMs));
      this.rollCall();
    }
  }

  /** Ends the streams of those who may no longer speak. A database that does not answer ends nothing. */
  rollCall(): void {
    const own = this;
    this.scope.spawn(
      (function* (): Work {
        const sessions = [...own.roster.values()];
        const rows = yield* own.transact((tables) =>
          sessions.map(({ daemonId }) => {
            const node = tables.nodes.get(daemonId);
            return (
              node && { lifecycle: node.lifecycle, incarnation: node.incarnation, quarantinedAt: node.quarantinedAt }
            );
          }),
        );
        for (const [index, session] of sessions.entries()) {
          const row = rows[index];
          if (row === undefined) continue;
          if (row.lifecycle !== "active" || row.incarnation > session.incarnation)
            session.stream.close({ why: "fenced" });
          else if (row.quarantinedAt !== null && session.stream.ending === null) {
            session.stream.close({ why: "go away", reconnectAfterMs: 60_000, reason: "quarantined" });
          }
        }
      })(),
      (error) => {
        if (!(error instanceof DatabaseError)) throw error;
      },
    );
  }

  /** As the product's `Listener`. */
  on(topic: string, callback: (about: string) => void): Disposable {
    const all = this.heardBy.get(topic) ?? new Set();
    this.heardBy.set(topic, all.add(callback));
    return { [Symbol.dispose]: () => void all.delete(callback) };
  }

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
    this.leads = false;
    this.process.kill();
    this.client.forget();
    for (const each of this.world.postgres.listeners) {
      if (each.process === this.process) this.world.postgres.listeners.delete(each);
    }
    this.world.breakConnections(this.process, isNoticed);
  }
}
