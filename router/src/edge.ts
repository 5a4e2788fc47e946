import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "@svc/runtime/clock";
import { durableFile } from "@svc/runtime/durable-file";
import type { Random } from "@svc/runtime/random";
import { pause } from "@svc/runtime/sleep";
import { createWake } from "@svc/runtime/wake";
import { type Analytics, openAnalytics } from "./analytics/analytics.ts";
import { type AppliedState, type Applier, startApplier } from "./apply.ts";
import { createFetcher } from "./bundles/fetcher.ts";
import { openPredecessors } from "./bundles/predecessors.ts";
import type { BundlePull } from "./bundles/pull.ts";
import { openBundleStore } from "./bundles/store.ts";
import { createCaddyAdmin, hasModule, keepConfigured, usableCaddy } from "./caddy.ts";
import { type Certificates, openCertificates } from "./certificates/certificates.ts";
import { type Challenges, openChallenges } from "./certificates/challenges.ts";
import type { Config } from "./config.ts";
import { type EntranceKeys, openEntranceKeys } from "./entrances/keys.ts";
import { openHostLinks } from "./host-links.ts";
import type { Log } from "./log.ts";
import type { Metrics } from "./metrics/metrics.ts";
import { countAdmin, watchCaddy } from "./metrics/serve.ts";
import { moduleAt } from "./module-link.ts";
import { gateDirName, predecessorsDirName } from "./names.ts";
import { startPageServer } from "./pages/server.ts";
import { createAttempts } from "./password/attempts.ts";
import { createPasswordChecker } from "./password/checker.ts";
import { openGateFiles } from "./password/gate-files.ts";
import { type Gates, openGates } from "./password/gates.ts";
import { createLogin } from "./password/login.ts";
import { watchReach } from "./reach/watch.ts";
import { edgeModule, tableSocketOf } from "./render/edge-module.ts";
import type { EntranceFiles } from "./render/entrance-tls.ts";
import { renderConfig } from "./render/render.ts";
import { openRotation, type Rotation } from "./rotation/rotation.ts";
import { createStanding, type Standing } from "./rotation/standing.ts";
import { createAnswerByRules } from "./site-rules/answer.ts";
import { openKeptRules } from "./site-rules/kept-rules.ts";
import { createTableFeed } from "./table-feed.ts";
import { openTableFile } from "./table-file.ts";
import { createTableStore } from "./table-store.ts";
import { openBatchStore } from "./traffic/batch-store.ts";
import { startTraffic, type Traffic } from "./traffic/traffic.ts";
import { openTree } from "./tree.ts";
import { openTreeFiles } from "./tree-files.ts";

/** Everything on this machine that serves visitors, except Caddy itself. Needs nobody else. */
export interface Edge extends AsyncDisposable {
  applier: Applier;
  gates: Gates;
  certificates: Certificates;
  challenges: Challenges;
  traffic: Traffic;
  /** Null: nobody wants any. */
  analytics: Analytics | null;
  entranceKeys: EntranceKeys;
  rotation: Rotation;
  standing: Standing;
  /** Settles when Caddy has its configuration for the first time. */
  ready: Promise<void>;
}

/** How long an app may take to begin an answer, long polling included. */
const answerTimeoutMs = 120_000;
/** Caddy takes its configuration in far less, and visitors of other routes wait for it. */
const openEntrancesMs = 5_000;
/** A row of analytics is sent whole each time, so not in every round of counting. */
const roundsPerRow = 6;

/**
 * Serves the last good table, and from then on the tables given to the applier. Caddy may come later, go,
 * and come back.
 */
export async function startEdge(
  config: Config,
  deps: {
    pull: BundlePull;
    onApplied(state: AppliedState): void;
    clock: Clock;
    random: Random;
    log: Log;
    answerTimeoutMs?: number;
    metrics?: Metrics;
    /** Called after every round of counting requests. */
    onTurn?: () => void;
    /** Called with whether Caddy has its configuration, whenever that was looked at. */
    onConfigured?: (configured: boolean) => void;
  },
): Promise<Edge> {
  const { pull, onApplied, metrics, clock, random, log } = deps;
  await using opened = new AsyncDisposableStack();
  const bundlesDir = join(config.dir, "bundles");
  const bundles = await openBundleStore(bundlesDir, log);
  const { immutablesDir } = bundles;
  const tree = opened.use(openTree(clock, await openTreeFiles(config.tableDir), immutablesDir, log));
  const predecessors = openPredecessors(
    config.dir,
    immutablesDir,
    openHostLinks(join(config.tableDir, predecessorsDirName)),
    log,
  );
  const gates = opened.use(
    await openGates(clock, join(config.dir, "gates"), openGateFiles(join(config.tableDir, gateDirName)), log),
  );
  const configure = createWake(clock);
  const entranceKeys = await openEntranceKeys(clock, join(config.dir, "entrances"));
  /** What Caddy was told last, and whether it may be told at all yet. */
  let entrance: EntranceFiles | null = null;
  let isConfiguring = false;
  const { promise: entrancesOpen, resolve: onEntrancesOpen } = Promise.withResolvers<void>();
  const openEntrances = async (): Promise<void> => {
    await entranceKeys.need();
    if (!isConfiguring || entranceKeys.current() === null) return;
    configure.signal();
    const within = new AbortController();
    await Promise.race([entrancesOpen, pause(clock, openEntrancesMs, within.signal)]);
    within.abort();
  };
  const store = opened.use(createTableStore(await openTableFile(join(config.dir, "table")), log));
  const feed = opened.use(createTableFeed(clock, moduleAt(tableSocketOf(config.adminSocket)), tree, log));
  const applier = opened.use(
    await startApplier({
      store,
      tree,
      feed,
      bundles,
      predecessors,
      gates,
      openEntrances,
      createFetcher: (onChange) => createFetcher({ store: bundles, pull, onChange, metrics, clock, log }),
      onApplied,
      metrics,
      clock,
      log,
    }),
  );
  const watching = new AbortController();
  const reach = watchReach({
    routes: () => applier.routes().values(),
    onChange: applier.avoid,
    signal: watching.signal,
    clock,
    log,
  });
  opened.defer(async () => {
    watching.abort();
    await reach;
  });
  const counted = await openBatchStore(random, join(config.dir, "traffic"), log);
  const analyticsDir = join(config.dir, "analytics");
  // Whoever switches it off wants nothing of it to stay.
  if (config.analytics === "off") await rm(analyticsDir, { recursive: true, force: true });
  const analytics =
    config.analytics === "off"
      ? null
      : opened.use(
          await openAnalytics({
            dir: analyticsDir,
            position: counted.position(),
            everyMs: config.trafficEveryMs * roundsPerRow,
            optOut: config.analytics === "opt-out",
            geoDatabase: config.geoDatabase,
            ...{ clock, random, log },
          }),
        );
  const certificates = await openCertificates(join(config.dir, "certificates"), config.certificatesDir, log);
  const challenges = openChallenges(clock, config.challengesDir, config.httpListen, log);
  // Before Caddy hears where to write, and what of an earlier run it has written is counted.
  const traffic = opened.use(
    await startTraffic({
      store: counted,
      analytics,
      logDir: config.trafficDir,
      everyMs: config.trafficEveryMs,
      metrics,
      onTurn: deps.onTurn,
      routes: () => (applier.state().digest === "" ? null : applier.routes()),
      clock,
      log,
    }),
  );
  // The table of names is complete before Caddy hears where it is.
  const pages = opened.use(
    await startPageServer(
      config.pagesListen,
      {
        serves: (host) => applier.routes().has(host),
        mayCertify: (host) => host.endsWith(`.${config.contentDomain}`) && applier.routes().has(host),
      },
      {
        logIn: createLogin({
          routes: applier.routes,
          gates,
          attempts: createAttempts(),
          checker: createPasswordChecker(),
          clock,
          log,
        }),
        byRules: createAnswerByRules({ rules: openKeptRules(bundlesDir), bundlesDir, tableDir: config.tableDir, log }),
      },
    ),
  );
  const rotation = opened.use(
    await openRotation({
      file: durableFile(join(config.dir, "rotation.json")),
      waitMs: config.drainWaitMs,
      onChange: configure.signal,
      ...{ clock, log },
    }),
  );
  let isConfigured = false;
  const onLook = (configured: boolean): void => {
    isConfigured = configured;
    deps.onConfigured?.(configured);
  };
  const standing = opened.use(
    createStanding({
      ...{ rotation, applier, gates, certificates, clock },
      wantsSalts: analytics !== null,
      isCaddyConfigured: () => isConfigured,
    }),
  );
  const { promise: ready, resolve: onConfigured } = Promise.withResolvers<void>();
  const stop = new AbortController();
  const admin = createCaddyAdmin(clock, config.adminSocket);
  if (metrics !== undefined) watchCaddy(metrics, admin);
  isConfiguring = true;
  const configuring = keepConfigured({
    admin: metrics === undefined ? admin : countAdmin(admin, metrics),
    isClosing: rotation.isClosing,
    revision: () => entranceKeys.current()?.key ?? "",
    render: async (closing) => {
      entrance = entranceKeys.current();
      return renderConfig({
        caddyVersion: await usableCaddy(config.caddyBinary, config.inFront),
        ...{ inFront: config.inFront, closing },
        httpListen: config.httpListen,
        httpsListen: config.httpsListen,
        tls: config.tls,
        certificatesListen: config.certificatesListen,
        certificatesDir: config.certificatesDir,
        certificatesPath: certificates.path,
        challengesDir: config.challengesDir,
        adminSocket: config.adminSocket,
        tableDir: config.tableDir,
        bundlesDir,
        immutablesDir,
        trafficDir: config.trafficDir,
        pagesListen: pages.address,
        contentDomain: config.contentDomain,
        answerTimeoutMs: deps.answerTimeoutMs ?? answerTimeoutMs,
        logsVisits: config.analytics !== "off",
        entrance,
        hasEdgeModule: await hasModule(config.caddyBinary, edgeModule),
      });
    },
    onConfigured(closing) {
      if (entrance !== null) onEntrancesOpen();
      void entranceKeys
        .settle(entrance)
        .catch((err: unknown) => log.warn({ err }, "keys that are not shown any more are still there"));
      onConfigured();
      rotation.configured(closing);
      onLook(true);
    },
    onUnreachable: () => onLook(false),
    wake: configure,
    signal: stop.signal,
    log,
  });
  opened.defer(async () => {
    stop.abort();
    await configuring;
  });
  const running = opened.move();
  return {
    applier,
    gates,
    certificates,
    challenges,
    traffic,
    analytics,
    entranceKeys,
    rotation,
    standing,
    ready,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
}
