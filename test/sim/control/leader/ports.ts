import type { Log } from "@svc/agent/log";
import { LeaderOutdated } from "@svc/control/fleet/cluster/fenced";
import type { Fleet } from "@svc/control/fleet/cluster/fleet";
import { keyParts, keys, prefix } from "@svc/control/fleet/cluster/keys";
import { routeTopic, taskTopic } from "@svc/control/fleet/cluster/topics";
import type { Transact } from "@svc/control/fleet/testing/tables";
import { EtcdError, LeadershipLost, UnknownOutcome } from "@svc/control/stores/etcd/errors";
import type { Entry, Etcd, Leadership } from "@svc/control/stores/etcd/index";
import type { Clock } from "@svc/runtime/clock";
import { type Scope, type Work, wait } from "../../kernel/kernel.ts";
import { createAnswer, enter, virtualClock } from "../../kernel/ports.ts";
import { virtualLog } from "../../machines/log.ts";
import type { Op } from "../../stores/etcd.ts";
import type { Leadership as VirtualLeadership } from "../../stores/etcd-lease.ts";
import { DatabaseError, type Notify, type Tables } from "../../stores/postgres.ts";
import { capacityOf, type SessionValue, type Versioned } from "../fleet.ts";
import type { Replica } from "../replica.ts";

/** What the product's loops of a leader are handed, for one leadership of a replica. */
export interface LeaderPorts {
  clock: Clock;
  fleet: Fleet;
  etcd: Etcd;
  leadership: Leadership;
  transact: Transact<Tables>;
  log: Log;
  /** Hears of every round that failed. What the next round may not meet any more is nothing to worry about. */
  onError(error: unknown): void;
}

export function leaderPorts(replica: Replica, leadership: VirtualLeadership): LeaderPorts {
  const { process } = replica;
  const { scope } = process;
  return {
    clock: virtualClock(process),
    fleet: fleetOf(replica),
    etcd: etcdOf(replica, scope),
    leadership: leadershipOf(replica, leadership, scope),
    transact: transactOf(replica, scope),
    log: virtualLog(process),
    onError: (error) => void (!isPassing(error) && process.onUncaught(error)),
  };
}

const isPassing = (error: unknown): boolean =>
  [EtcdError, UnknownOutcome, DatabaseError, LeaderOutdated, LeadershipLost].some((kind) => error instanceof kind);

/** Settles when the work ends, in an event of its own; never once this life of the process is over. */
function promised<T>(scope: Scope, tag: string, work: Work<T>): Promise<T> {
  const answer = createAnswer<T>(scope);
  const onError = (error: unknown) => answer.reject(error, 0, tag);
  scope.spawn(work, onError, (value) => answer.resolve(value, 0, tag));
  return answer.promise;
}

/** The database's topics, as the copies call them. */
const topics: Readonly<Record<string, Parameters<Notify>[0]>> = { [taskTopic]: "task", [routeTopic]: "route" };

/** An error that the work throws reaches the caller alone: nothing has been changed. */
const transactOf =
  (replica: Replica, scope: Scope): Transact<Tables> =>
  async (work) => {
    const { postgres } = replica.world;
    const done = await promised(
      scope,
      "rows",
      replica.transact((tables, notify) => {
        const tell = (topic: string) => void (topics[topic] !== undefined && notify(topics[topic]));
        try {
          return { value: work({ tables, now: postgres.now(), notify: tell }) };
        } catch (error) {
          return { error };
        }
      }),
    );
    if ("error" in done) throw done.error;
    return done.value;
  };

// ------------------------------------------------------------------- etcd

/** Texts of the product are JSON; those of the virtual store stand for objects, which of routes say what they are. */
function textsOf({ world: { values } }: Replica) {
  const read = (value: string): string => {
    const known = values.of<object>(value);
    const plain =
      typeof known !== "object" ? known : "entry" in known ? known.entry : "meta" in known ? known.meta : known;
    return JSON.stringify(plain);
  };
  const write = (key: string, value: string): string => {
    const parsed: unknown = JSON.parse(value);
    if (key === keys.routesMeta) return values.textOf({ meta: parsed });
    return values.textOf(key.startsWith(prefix.routeTable) ? { entry: parsed } : parsed);
  };
  return {
    entry: (entry: Entry): Entry => ({ ...entry, value: read(entry.value) }),
    op: (op: Op): Op => ("put" in op ? { put: { ...op.put, value: write(op.put.key, op.put.value) } } : op),
  };
}

function etcdOf(replica: Replica, scope: Scope): Etcd {
  const { client } = replica;
  const texts = textsOf(replica);
  const writer = { by: "worker", serverId: replica.id } as const;
  return {
    get: (key: string) =>
      promised(
        scope,
        "etcd get",
        (function* (): Work<Entry | null> {
          const entry = yield* client.get(key);
          return entry && texts.entry(entry);
        })(),
      ),
    range: (under: string) =>
      promised(
        scope,
        "etcd range",
        (function* () {
          const { entries, revision } = yield* client.range(under);
          return { entries: entries.map(texts.entry), revision };
        })(),
      ),
    txn: ({ guards = [], ops }: Parameters<Etcd["txn"]>[0]) =>
      promised(
        scope,
        "etcd done",
        (function* () {
          return yield* wait(client.txn({ guards, ops: ops.map(texts.op), writer }));
        })(),
      ),
  } as unknown as Etcd;
}

function leadershipOf(replica: Replica, leadership: VirtualLeadership, scope: Scope): Leadership {
  const texts = textsOf(replica);
  const ending = new AbortController();
  leadership.scope.onEnd(() => enter(replica.process, () => ending.abort(new LeadershipLost("the leadership ended"))));
  return {
    epoch: leadership.epoch,
    signal: ending.signal,
    isHeld: () => leadership.isHeld,
    txn: (ops, guards = []) => promised(scope, "leader's txn", leadership.txn(ops.map(texts.op), guards)),
  };
}

// ------------------------------------------------------------------ fleet

/** What the product's loops see of the cluster, by the copy of the fleet. */
function fleetOf(replica: Replica): Fleet {
  const { fleet } = replica;
  const nodeIdOf = (key: string, under: string): string => keyParts(key, under)[0] ?? "";
  const listRuns = () =>
    [...fleet.runs.values].map(([key, { value, modRevision }]) => ({
      nodeId: nodeIdOf(key, prefix.runs),
      run: value,
      modRevision,
    }));
  return {
    now: () => fleet.now(),
    lookingSince: fleet.lookingSince,
    onChange(what, callback) {
      const views = {
        nodes: [fleet.nodes, fleet.servers],
        placements: [fleet.placements, fleet.observations],
        runs: [fleet.runs],
        routes: [fleet.routes],
        edges: [fleet.edges],
        status: [fleet.status],
      }[what];
      const stops = views.map((view) =>
        view.subscribe((changes: readonly { key: string }[]) => enter(replica.process, () => callback(changes))),
      );
      return {
        [Symbol.dispose]: () => {
          for (const stop of stops) stop();
        },
      };
    },
    replicas: () => [],
    nodeSession(nodeId) {
      const found = fleet.session(nodeId);
      return found && { session: sessionOf(found.session), serverAlive: found.serverAlive };
    },
    nodeLink: (nodeId) => fleet.nodeLink(nodeId),
    nodeLostAt: (nodeId) => fleet.nodeLostAt(nodeId),
    wasAwayAtFirst: (nodeId) => fleet.wasAwayAtFirst(nodeId),
    staleSessions: () => fleet.staleSessions(),
    status: () => fleet.status.get(keys.clusterStatus)?.value ?? null,
    placements: () =>
      [...fleet.placements.values].map(([key, { value, modRevision }]) => ({
        nodeId: nodeIdOf(key, prefix.placements),
        placement: value,
        modRevision,
      })),
    observation: (nodeId, placementId) => fleet.observation(nodeId, placementId),
    findPlacement: (placementId) => fleet.findPlacement(placementId),
    findRun: (attemptId) => listRuns().find(({ run }) => run.attemptId === attemptId) ?? null,
    runs: listRuns,
    routeTable: () => fleet.routeTable(),
    route: (host) => fleet.route(host),
    isRouted: (projectId) => [...fleet.routeTable().values()].some((entry) => entry.projectId === projectId),
    routesMeta: () => fleet.routesMeta(),
    edgeSession: (edgeId) => {
      const found = fleet.edges.get(keys.edgeSession(edgeId));
      return found === undefined ? null : (found as Versioned<never>).value;
    },
    edgeApplied: (edgeId) => fleet.edgeApplied(edgeId),
    [Symbol.dispose]: () => {},
  };
}

const sessionOf = ({ memoryMb, ...session }: SessionValue) => ({
  ...session,
  ...{ address: "", version: "", labels: {}, bootTookAt: null, takeovers: [...session.takeovers] },
  capacity: capacityOf(memoryMb),
  platform: { os: "linux", architecture: "amd64" },
});
