import type { MessageInitShape } from "@bufbuild/protobuf";
import type { SessionRequest as EdgeRequest, SessionResponseSchema as EdgeResponseSchema, Gate } from "@svc/proto/edge";
import type {
  SessionRequest as NodeRequest,
  SessionResponseSchema as NodeResponseSchema,
  Placement,
  RunOffer,
} from "@svc/proto/node";
import { every } from "@svc/runtime/clock";
import { createLimiter } from "@svc/runtime/limiter";
import { createTokenBucket, createTokenBuckets } from "@svc/runtime/token-bucket";
import type { Listener } from "../../stores/db/listen.ts";
import type { NodeRows } from "../agents/node-rows.ts";
import { serveNode } from "../agents/node-session.ts";
import type { DaySalt } from "../analytics/salts.ts";
import type { CertificateFeed } from "../certificates/feed.ts";
import { prefix } from "../cluster/keys.ts";
import { nodeTopic } from "../cluster/topics.ts";
import type { ClusterViews } from "../cluster/views.ts";
import type { LoadDatabaseTable } from "../database-tables/tables.ts";
import type { LoadVolumesToRemove } from "../database-volumes/load.ts";
import type { EdgeRows } from "../edges/edge-rows.ts";
import { serveEdge } from "../edges/edge-session.ts";
import { createTableFeed, type TableFeed } from "../edges/table-feed.ts";
import type { DaemonCall } from "../sessions/call.ts";
import { createRoster, endLostSessions, type Roster } from "../sessions/roster.ts";
import { cutOffEnding, type SessionDeps } from "../sessions/session.ts";
import { countedIdentities, helloRate, ownHelloRate } from "../sessions/timings.ts";
import type { Tunnels } from "../tunnels/tunnels.ts";
import { endOverdue } from "./keep-authority.ts";
import { callRoll, keepRoll, type RollRows } from "./roll-call.ts";

/** What streams ask of Postgres. */
export interface StreamRows {
  nodes: NodeRows;
  edges: EdgeRows;
  roll: RollRows;
}

/** What streams tell daemons, as it is loaded when it is told. */
export interface StreamLoads {
  /** The whole spec of a placement, secrets included; null when its task is gone. */
  placement: (placementId: string) => Promise<Placement | null>;
  /** What an attempt runs; null when there is nothing to run. */
  run: (attemptId: string) => Promise<RunOffer | null>;
  databaseTable: LoadDatabaseTable;
  volumesToRemove: LoadVolumesToRemove;
  /** What guards these projects now; those that are open are left out. */
  gates: (projectIds: readonly string[]) => Promise<Gate[]>;
  /** What visitors are told apart with; null: nobody is. */
  salts: (() => Promise<DaySalt[]>) | null;
}

export interface StreamsDeps
  extends Pick<
    SessionDeps,
    | "etcd"
    | "authority"
    | "serverId"
    | "registry"
    | "leaves"
    | "timings"
    | "log"
    | "clock"
    | "random"
    | "stopping"
    | "isCutOff"
    | "metrics"
  > {
  rows: StreamRows;
  loads: StreamLoads;
  views: Pick<ClusterViews, "nodes" | "edges" | "routes" | "leader" | "placementsByNode" | "runsByNode">;
  listener: Pick<Listener, "on">;
  /** What edges show over TLS and answer CAs; null: control gets no certificates. */
  certificates: CertificateFeed | null;
  tunnels: Pick<Tunnels, "holders" | "endOf">;
  /** Streams that one identity may open; another bound, for tests. */
  ownHellos?: { ratePerSecond: number; burst: number };
}

/** Every stream of one replica, from its first message to its end, over whatever carries it. */
export interface Streams extends Disposable {
  roster: Roster;
  /** The newest whole table of routes. */
  tables: TableFeed;
  serveNode(call: DaemonCall<NodeRequest, MessageInitShape<typeof NodeResponseSchema>>): void;
  serveEdge(call: DaemonCall<EdgeRequest, MessageInitShape<typeof EdgeResponseSchema>>): void;
  /** Tells every daemon to come back, in the long run at `reconnectsPerSecond`, because the replica stops. */
  sendAway(reconnectsPerSecond: number): void;
  /** Each has let go of its session key, and the roll is called no more; `stopping` has aborted. */
  ended(): Promise<void>;
}

/**
 * Streams whose specs are loaded at once, so that a storm of reconnections does not keep all of them in memory. Postgres
 * has room: what they ask for at once is read together.
 */
const loadsAtOnce = 256;
const stuckCheckMs = 1_000;

/** Looks after streams until disposed. */
export function createStreams(deps: StreamsDeps): Streams {
  const { rows, loads, views, listener, certificates, tunnels } = deps;
  const { etcd, authority, serverId, registry, leaves, timings, log, clock, random, stopping, isCutOff, metrics } =
    deps;
  const cleanup = new DisposableStack();
  const tables = cleanup.use(createTableFeed(views.routes, log));
  const roster = createRoster();
  cleanup.use(views.nodes.subscribe((changes, revision) => endLostSessions(roster, prefix.nodes, changes, revision)));
  cleanup.use(views.edges.subscribe((changes, revision) => endLostSessions(roster, prefix.edges, changes, revision)));

  const sessionDeps = {
    ...{
      etcd,
      authority,
      serverId,
      registry,
      roster,
      leaves,
      timings,
      log,
      clock,
      random,
      stopping,
      isCutOff,
      listener,
    },
    ownHellos: createTokenBuckets({ ...(deps.ownHellos ?? ownHelloRate), max: countedIdentities }),
    hellos: createTokenBucket(helloRate),
    ...(metrics && { metrics }),
  };
  const nodeDeps = {
    ...{ ...sessionDeps, rows: rows.nodes, views },
    ...{ loadPlacement: loads.placement, loadRun: loads.run },
    ...{ loadDatabaseTable: loads.databaseTable, loadVolumesToRemove: loads.volumesToRemove },
    loading: createLimiter({ total: loadsAtOnce }),
  };
  const edgeDeps = {
    ...{ ...sessionDeps, rows: rows.edges, tables, certificates },
    ...{ loadGates: loads.gates, loadSalts: loads.salts },
  };
  const streams = new Set<Promise<void>>();
  const track = (stream: Promise<void>): void => {
    const tracked = stream
      .catch((error: unknown) => log.error({ err: error }, "a stream failed"))
      .finally(() => streams.delete(tracked));
    streams.add(tracked);
  };

  const looking = every(clock, stuckCheckMs, () => {
    // Asked once for all: it is a call to the system.
    const nowMs = clock.bootMs();
    for (const session of roster.all()) session.check(nowMs);
    endOverdue(roster, clock.now());
    if (isCutOff()) for (const session of [...roster.all()]) session.close(cutOffEnding(random));
  });
  stopping.addEventListener("abort", () => looking[Symbol.dispose](), { once: true });
  const roll = { clock, rows: rows.roll, roster, tunnels };
  const rolling = keepRoll({ ...roll, log }, timings.rollCallEveryMs, stopping);
  cleanup.use(
    listener.on(nodeTopic, () => {
      callRoll(roll).catch((error: unknown) => log.warn({ err: error }, "the roll could not be called"));
    }),
  );

  return {
    ...{ roster, tables },
    serveNode: (call) => track(serveNode(call, nodeDeps)),
    serveEdge: (call) => track(serveEdge(call, edgeDeps)),
    sendAway(reconnectsPerSecond) {
      const spreadMs = (roster.size / reconnectsPerSecond) * 1000;
      for (const session of [...roster.all()]) {
        session.close({ why: "go away", reconnectAfterMs: Math.round(random.next() * spreadMs), reason: "stopping" });
      }
    },
    ended: async () => void (await Promise.all([...streams, rolling])),
    [Symbol.dispose]: () => cleanup.dispose(),
  };
}
