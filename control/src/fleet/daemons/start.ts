import type { MessageInitShape } from "@bufbuild/protobuf";
import { EdgeService, type Gate } from "@svc/proto/edge";
import {
  EnrollmentService,
  NodeService,
  type Placement,
  type RegistryAccessSchema,
  type RunOffer,
} from "@svc/proto/node";
import type { Clock } from "@svc/runtime/clock";
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
import { nodeRows } from "../agents/node-rows.ts";
import type { DaySalt } from "../analytics/salts.ts";
import type { Authority } from "../ca/authority.ts";
import type { CertificateFeed } from "../certificates/feed.ts";
import type { ClusterViews } from "../cluster/views.ts";
import { createDatabaseTables } from "../database-tables/tables.ts";
import { createLoadVolumesToRemove } from "../database-volumes/load.ts";
import { edgeRows } from "../edges/edge-rows.ts";
import type { RegistryTokens } from "../registry-tokens/issue.ts";
import { grpcCall } from "../sessions/call.ts";
import { createLeafCheck } from "../sessions/leaf-check.ts";
import type { LinkMetrics } from "../sessions/session.ts";
import { countedIdentities, defaultTimings, joinRate, type LinkTimings, ownCallRate } from "../sessions/timings.ts";
import { forwardTunnels, type Tunnels } from "../tunnels/tunnels.ts";
import { type CallDeps, issueEdgeToken, nodeCalls, renewCertificate, takeTunnel } from "./calls.ts";
import { joinHandlers } from "./join.ts";
import { keepAuthority } from "./keep-authority.ts";
import { rollRows } from "./roll-call.ts";
import { createServer, listen, RotatingCredentials, stopServer } from "./server.ts";
import { createStreams } from "./streams.ts";

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

  const leaves = createLeafCheck(authority);
  const ownBuckets = (rate: Rate) => createTokenBuckets({ ...rate, max: countedIdentities });
  const calls: CallDeps = {
    ...{ db, etcd, authority, leaves, log, clock },
    own: ownBuckets(deps.ownRates?.calls ?? ownCallRate),
    ...{ logBytesMax: deps.logBytesMax, registryTokens: deps.registryTokens },
    ...{ baseImages: deps.baseImages, registryHost: registry.host ?? "" },
  };
  const streams = cleanup.use(
    createStreams({
      ...{ etcd, views, authority, serverId, registry, leaves, listener, log, clock, random, timings, stopping },
      isCutOff: deps.isCutOff,
      rows: { nodes: nodeRows(db), edges: edgeRows(db), roll: rollRows(db) },
      loads: {
        ...{ placement: deps.loadPlacement, run: deps.loadRun, gates: deps.loadGates, salts: deps.loadSalts },
        databaseTable: createDatabaseTables(clock, { db, views }),
        volumesToRemove: createLoadVolumesToRemove(clock, db),
      },
      ...{ certificates: deps.certificates, tunnels: deps.tunnels },
      ...(deps.metrics && { metrics: deps.metrics }),
      ...(deps.ownRates?.hellos && { ownHellos: deps.ownRates.hellos }),
    }),
  );
  const { roster, tables } = streams;
  cleanup.use(forwardLogQueries(listener, roster));
  cleanup.use(forwardTunnels(listener, roster));
  cleanup.use(forwardGoneProjects(listener, roster));

  const link = createServer(timings);
  serve(link, NodeService, {
    ...nodeCalls(calls),
    session: (call) => streams.serveNode(grpcCall(call)),
    tunnel: takeTunnel(calls, deps.tunnels),
  });
  serve(link, EdgeService, {
    renewCertificate: renewCertificate("edge", calls),
    issueRegistryToken: issueEdgeToken(calls, tables),
    session: (call) => streams.serveEdge(grpcCall(call)),
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
      // The streams end first: a transport that pings while it shuts down would cut them.
      streams.sendAway(reconnectsPerSecond);
      // Each is a call that lasts as long as its user likes, for which a gentle stop would wait.
      deps.tunnels.endAll("This replica of control is stopping. Connect again.");
      await Promise.all([
        stopServer(clock, link, timings.stopGraceMs),
        stopServer(clock, enrollment, timings.stopGraceMs),
      ]);
      // Each lets go of its session key, so that the fleet counts as connected only where it is.
      await Promise.all([streams.ended(), keeping]);
      await owned.disposeAsync();
    },
  };
}
