import type { MessageInitShape } from "@bufbuild/protobuf";
import { EdgeService, type Gate } from "@svc/proto/edge";
import {
  EnrollmentService,
  NodeService,
  type Placement,
  type RegistryAccessSchema,
  type RunOffer,
} from "@svc/proto/node";
import { type Clock, every } from "@svc/runtime/clock";
import { createLimiter } from "@svc/runtime/limiter";
import type { Random } from "@svc/runtime/random";
import { createTokenBucket, createTokenBuckets } from "@svc/runtime/token-bucket";
import type { Log } from "../../log.ts";
import type { ListenAddress } from "../../settings/settings.ts";
import type { Listener } from "../../stores/db/listen.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Etcd } from "../../stores/etcd/index.ts";
import { serve } from "../../stores/grpc/adapter.ts";
import { forwardGoneProjects } from "../agents/gone-projects.ts";
import { forwardLogQueries } from "../agents/log-query.ts";
import { serveNode } from "../agents/node-session.ts";
import type { DaySalt } from "../analytics/salts.ts";
import type { Authority } from "../ca/authority.ts";
import type { CertificateFeed } from "../certificates/feed.ts";
import { prefix } from "../cluster/keys.ts";
import { nodeTopic } from "../cluster/topics.ts";
import type { ClusterViews } from "../cluster/views.ts";
import { createDatabaseTables } from "../database-tables/tables.ts";
import { createLoadVolumesToRemove } from "../database-volumes/load.ts";
import { serveEdge } from "../edges/edge-session.ts";
import { createTableFeed } from "../edges/table-feed.ts";
import type { RegistryTokens } from "../registry-tokens/issue.ts";
import { createLeafCheck } from "../sessions/leaf-check.ts";
import { createRoster, endLostSessions } from "../sessions/roster.ts";
import { cutOffEnding, type LinkMetrics } from "../sessions/session.ts";
import {
  countedIdentities,
  defaultTimings,
  helloRate,
  joinRate,
  type LinkTimings,
  ownCallRate,
  ownHelloRate,
} from "../sessions/timings.ts";
import { forwardTunnels, type Tunnels } from "../tunnels/tunnels.ts";
import { type CallDeps, issueEdgeToken, nodeCalls, renewCertificate, takeTunnel } from "./calls.ts";
import { joinHandlers } from "./join.ts";
import { endOverdue, keepAuthority } from "./keep-authority.ts";
import { callRoll, keepRoll } from "./roll-call.ts";
import { createServer, listen, RotatingCredentials, stopServer } from "./server.ts";

interface Rate {
  ratePerSecond: number;
  burst: number;
}

/** Everything that the link needs of the rest of control. */
export interface LinkDeps {
  config: { linkListen: ListenAddress; enrollListen: ListenAddress };
  db: Db;
  /** Postgres notifications: log queries, and nodes that were fenced. */
  listener: Listener;
  etcd: Etcd;
  /** Of the same etcd, ready, and there for longer than the link. */
  views: Pick<ClusterViews, "nodes" | "edges" | "routes" | "leader" | "placementsByNode" | "runsByNode">;
  authority: Authority;
  /** This replica, as under `servers/` in etcd. */
  serverId: string;
  /** How daemons reach the cluster's own registry. */
  registry: MessageInitShape<typeof RegistryAccessSchema>;
  registryTokens: RegistryTokens;
  log: Log;
  clock: Clock;
  random: Random;
  /** The whole spec of a placement, secrets included; null when its task is gone. */
  loadPlacement: (placementId: string) => Promise<Placement | null>;
  /** What guards these projects now; those that are open are left out. */
  loadGates: (projectIds: readonly string[]) => Promise<Gate[]>;
  /** What visitors are told apart with; null: nobody is. */
  loadSalts: (() => Promise<DaySalt[]>) | null;
  /** What edges show over TLS and answer CAs; null: control gets no certificates. */
  certificates: CertificateFeed | null;
  /** What an attempt runs; null when there is nothing to run. */
  loadRun: (attemptId: string) => Promise<RunOffer | null>;
  /** Whether an agent's stream (a placement's or an attempt's id) is a log on that node. */
  logBytesMax: CallDeps["logBytesMax"];
  /** Base images of builds, as copies in the cluster's registry. */
  baseImages: CallDeps["baseImages"];
  /** Where nodes' ends of tunnels go. They end with the link. */
  tunnels: Pick<Tunnels, "accept" | "holders" | "endOf" | "endAll">;
  /** Whether etcd answers other replicas and not this one. */
  isCutOff: () => boolean;
  metrics?: LinkMetrics;
  /** How often the authority is looked after; 10 s unless given. Also looked after when it changes. */
  authorityEveryMs?: number;
  /** What one identity may open and call; other bounds, for tests. */
  ownRates?: { hellos?: Rate; calls?: Rate };
  /** Shorter waits, for tests. */
  timings?: Partial<LinkTimings>;
}

export interface Link extends AsyncDisposable {
  /** The ports in use, where the configuration left them to the system. */
  readonly enrollPort: number;
  readonly linkPort: number;
  /** Streams that this replica holds. */
  readonly sessions: number;
}

/**
 * Streams whose specs are loaded at once, so that a storm of reconnections does not keep all of them in memory. Postgres
 * has room: what they ask for at once is read together.
 */
const loadsAtOnce = 256;
const stuckCheckMs = 1_000;
const authorityEveryMs = 10_000;
/** After a stop the fleet spreads over the other replicas at this rate. */
const reconnectsPerSecond = 200;

/** Serves daemons on both ports until disposed: enrolment (server TLS) and the link (both sides prove who they are). */
export async function startLink(deps: LinkDeps): Promise<Link> {
  const { config, db, listener, etcd, views, authority, serverId, registry, log, clock, random } = deps;
  const timings = { ...defaultTimings, ...deps.timings };
  const stop = new AbortController();
  const stopping = stop.signal;
  await using cleanup = new AsyncDisposableStack();

  const tables = cleanup.use(createTableFeed(views.routes, log));
  const roster = createRoster();
  cleanup.use(forwardLogQueries(listener, roster));
  cleanup.use(forwardTunnels(listener, roster));
  cleanup.use(forwardGoneProjects(listener, roster));
  cleanup.use(views.nodes.subscribe((changes, revision) => endLostSessions(roster, prefix.nodes, changes, revision)));
  cleanup.use(views.edges.subscribe((changes, revision) => endLostSessions(roster, prefix.edges, changes, revision)));

  const leaves = createLeafCheck(authority);
  const ownBuckets = (rate: Rate) => createTokenBuckets({ ...rate, max: countedIdentities });
  const calls: CallDeps = {
    ...{ db, etcd, authority, leaves, log, clock },
    own: ownBuckets(deps.ownRates?.calls ?? ownCallRate),
    ...{ logBytesMax: deps.logBytesMax, registryTokens: deps.registryTokens },
    ...{ baseImages: deps.baseImages, registryHost: registry.host ?? "" },
  };
  const sessionDeps = {
    ...{ db, etcd, authority, serverId, registry, roster, timings, log, clock, random, stopping, leaves },
    isCutOff: deps.isCutOff,
    ownHellos: ownBuckets(deps.ownRates?.hellos ?? ownHelloRate),
    hellos: createTokenBucket(helloRate),
    ...(deps.metrics && { metrics: deps.metrics }),
  };
  const nodeDeps = {
    ...{ ...sessionDeps, views },
    loadPlacement: deps.loadPlacement,
    loadRun: deps.loadRun,
    ...{ loadDatabaseTable: createDatabaseTables(clock, { db, views }), listener },
    loadVolumesToRemove: createLoadVolumesToRemove(clock, db),
    loading: createLimiter({ total: loadsAtOnce }),
  };
  const streams = new Set<Promise<void>>();
  const track = (stream: Promise<void>) => {
    const tracked = stream
      .catch((error: unknown) => log.error({ err: error }, "a stream failed"))
      .finally(() => streams.delete(tracked));
    streams.add(tracked);
  };

  const link = createServer(timings);
  serve(link, NodeService, {
    ...nodeCalls(calls),
    session: (call) => track(serveNode(call, nodeDeps)),
    tunnel: takeTunnel(calls, deps.tunnels),
  });
  const { loadGates, loadSalts, certificates } = deps;
  const edgeDeps = { ...sessionDeps, tables, loadGates, loadSalts, certificates, listener };
  serve(link, EdgeService, {
    renewCertificate: renewCertificate("edge", calls),
    issueRegistryToken: issueEdgeToken(calls, tables),
    session: (call) => track(serveEdge(call, edgeDeps)),
  });
  const enrollment = createServer(timings);
  const joins = createTokenBucket(joinRate);
  serve(enrollment, EnrollmentService, joinHandlers({ db, authority, joins, log, clock }));

  const { trust: shownTrust } = authority;
  const own = await authority.issueServer(clock.now());
  const linkCredentials = new RotatingCredentials(authority.trusted, own, { clients: true });
  const enrollCredentials = new RotatingCredentials(authority.trusted, own, { clients: false });
  cleanup.defer(() => void link.forceShutdown());
  cleanup.defer(() => void enrollment.forceShutdown());
  const linkPort = await listen(link, config.linkListen, linkCredentials);
  const enrollPort = await listen(enrollment, config.enrollListen, enrollCredentials);

  const keeping = keepAuthority(
    {
      ...{ db, authority, shownTrust, leaves, roster, listener, log, clock },
      ports: [linkCredentials, enrollCredentials],
    },
    deps.authorityEveryMs ?? authorityEveryMs,
    stopping,
  );
  const stuck = every(clock, stuckCheckMs, () => {
    // Asked once for all: it is a call to the system.
    const nowMs = clock.bootMs();
    for (const session of roster.all()) session.check(nowMs);
    endOverdue(roster, clock.now());
    if (deps.isCutOff()) for (const session of [...roster.all()]) session.close(cutOffEnding(random));
  });
  const roll = keepRoll({ ...{ clock, db, roster, log }, tunnels: deps.tunnels }, timings.rollCallEveryMs, stopping);
  cleanup.use(
    listener.on(nodeTopic, () => {
      callRoll({ ...{ clock, db, roster }, tunnels: deps.tunnels }).catch((error: unknown) =>
        log.warn({ err: error }, "the roll could not be called"),
      );
    }),
  );
  log.info({ linkPort, enrollPort }, "link listens");

  const owned = cleanup.move();
  return {
    linkPort,
    enrollPort,
    get sessions() {
      return roster.size;
    },
    async [Symbol.asyncDispose]() {
      if (stopping.aborted) return;
      stop.abort();
      stuck[Symbol.dispose]();
      // The streams end first: a transport that pings while it shuts down would cut them.
      const spreadMs = (roster.size / reconnectsPerSecond) * 1000;
      for (const session of [...roster.all()]) {
        session.close({ why: "go away", reconnectAfterMs: Math.round(random.next() * spreadMs), reason: "stopping" });
      }
      // Each is a call that lasts as long as its user likes, for which a gentle stop would wait.
      deps.tunnels.endAll("This replica of control is stopping. Connect again.");
      await Promise.all([
        stopServer(clock, link, timings.stopGraceMs),
        stopServer(clock, enrollment, timings.stopGraceMs),
      ]);
      // Each lets go of its session key, so that the fleet counts as connected only where it is.
      await Promise.all([...streams, roll, keeping]);
      await owned.disposeAsync();
    },
  };
}
