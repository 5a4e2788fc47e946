import { randomUUID } from "node:crypto";
import { createPulse } from "@svc/operators";
import { createRegistry, createTokenSigner, type Registry, type RegistryOptions } from "@svc/registry";
import { sweepAccountRepositories } from "./account-registry/sweep.ts";
import { deleteUserWorker } from "./admin/users/deletion.ts";
import { deleteUserKind } from "./admin/users/request-deletion.ts";
import { type Collector, createCollector } from "./artifacts/collect.ts";
import { collectBaseImages } from "./base-images/collect.ts";
import { createBaseImages } from "./base-images/fetch.ts";
import { openAuthority } from "./ca/authority.ts";
import { createFleet, type Fleet, fleetView } from "./cluster/fleet.ts";
import { startLeader } from "./cluster/leader.ts";
import { operatorFacts } from "./cluster/operators.ts";
import { announceServer } from "./cluster/presence.ts";
import type { Config } from "./config.ts";
import { clockOffset } from "./db/clock.ts";
import { createListener } from "./db/listen.ts";
import { migrate } from "./db/migrate.ts";
import { createPool, type Db, fromPool } from "./db/pool.ts";
import { seedPlans } from "./db/seed.ts";
import { lifecycleWorker } from "./deployments/lifecycle.ts";
import { createImageResolver } from "./deployments/oci/oci.ts";
import { referenceRules } from "./deployments/oci/reference.ts";
import { removeWorker } from "./deployments/remove/remove.ts";
import { retireWorker } from "./deployments/retire.ts";
import { deployWorker } from "./deployments/worker.ts";
import { createSteadyClock, leaseClockMs } from "./etcd/clock.ts";
import { createEtcd, type Etcd } from "./etcd/index.ts";
import { buildServer } from "./http/server.ts";
import { queryLog } from "./link/log-query.ts";
import { startLink } from "./link/start.ts";
import { createLog, type Log } from "./log.ts";
import { createMailer, type Mailer } from "./mail/mailer.ts";
import { createMetrics } from "./metrics/metrics.ts";
import { countEtcd, serveMetrics } from "./metrics/start.ts";
import { listNodes } from "./nodes/view.ts";
import { applyLimitsKind } from "./plans/apply-limits.ts";
import { applyLimitsWorker } from "./plans/worker.ts";
import { renameWorker } from "./projects/rename/worker.ts";
import { quotaNoticeWorker } from "./projects/suspension/quota/notice.ts";
import { suspensionWorker } from "./projects/suspension/worker.ts";
import { teardownWorker } from "./projects/teardown.ts";
import { requireRecovered } from "./recovery/check.ts";
import { createRegistryTokens } from "./registry-tokens/issue.ts";
import { gateSecretOf, loadGates } from "./routes/gate.ts";
import type { SchedulerMemory } from "./scheduler/score.ts";
import { listSchedulableNodes } from "./scheduler/snapshot.ts";
import { createSecrets, type Secrets } from "./secrets.ts";
import { createPlacementLoader, loadRun, ownsLogStream } from "./tasks/assignment.ts";
import { startWorkers, type WorkGroup } from "./work/worker.ts";

export interface ControlServer extends AsyncDisposable {
  apiPort: number;
  linkPort: number;
  enrollPort: number;
  /** Null without a listener for metrics. */
  metricsPort: number | null;
}

/** Deployments take minutes and wait a lot; everything else is short, and must not wait for them. */
const deploysAtOnce = 96;
const otherWorkAtOnce = 16;
/** One changed plan may concern thousands of projects, of which none is in a hurry. */
const limitsAtOnce = 2;
/** How long after its death a worker's item is taken over. */
const workLeaseMs = 10_000;
const etcdReadyMs = 60_000;
const logQueryMs = 10_000;
const janitorTimeoutMs = 10_000;
/** Longer than any statement may take: a loop that has not turned by then waits for something that never comes. */
const turnWithinMs = 120_000;

/** Starts one control replica on an up-to-date schema; disposing it stops everything it started, last started first. */
export async function start(config: Config, options: { log?: Log; now?: () => Date } = {}): Promise<ControlServer> {
  const log = options.log ?? createLog(config.logLevel);
  const now = options.now ?? (() => new Date());
  const serverId = randomUUID();
  await using stack = new AsyncDisposableStack();

  const ran = await migrate(config.databaseUrl);
  if (ran.length > 0) log.info({ migrations: ran }, "schema migrated");
  const onError = (error: Error) => log.warn({ err: error }, "idle connection of the database failed");
  const pool = createPool({ url: config.databaseUrl, maxConnections: 20, onError });
  const db = fromPool(pool);
  stack.defer(() => db.destroy());
  await seedPlans(db);
  const listener = stack.use(createListener(config.databaseUrl, log));
  const secrets = createSecrets(config.masterKeys);
  const gateSecret = gateSecretOf(config.authSecret);
  const authority = await openAuthority(db, secrets, now());
  const sign = createTokenSigner(config.registry.tokenKey, now());
  const registryOptions: RegistryOptions = {
    url: config.registry.url,
    tokens: async (access) => sign("control", access, now()),
  };
  const registry = stack.use(createRegistry(registryOptions));
  const registryHost = new URL(config.registry.url).host;

  const metrics = createMetrics({ process: config.metricsListen !== null });
  const pulse = createPulse(leaseClockMs);
  const etcd = stack.use(createEtcd({ ...etcdOptions(config), log, observer: countEtcd(metrics) }));
  const fleet = stack.use(createFleet(etcd, { log, now: options.now ?? createSteadyClock() }));
  await fleet.ready(etcdReadyMs);
  await requireRecovered(db, etcd);
  stack.use(
    announceServer({
      etcd,
      log,
      serverId,
      startedAt: now(),
      masterKeyIds: secrets.keyIds,
      address: config.apiListen.port === 0 ? null : `${config.apiListen.host}:${config.apiListen.port}`,
      readOffsetMs: async () => (await clockOffset(db, now)).offsetMs,
    }),
  );

  const assignment = {
    db,
    secrets,
    registryHost,
    baseImage: config.baseImageNode,
    builderImage: config.builderImageNode,
    buildCaBundle: config.buildCaBundle,
  };
  const baseImages = stack.use(
    createBaseImages({
      ...{ db, log, registry, rules: referenceRules(config) },
      operators: [config.baseImageNode, config.builderImageNode],
    }),
  );
  const link = stack.use(
    await startLink({
      config,
      registry: {
        host: registryHost,
        insecure: config.registry.url.startsWith("http:"),
      },
      registryTokens: createRegistryTokens({ db, etcd, sign, log, now }),
      db,
      etcd,
      listener,
      authority,
      serverId,
      metrics,
      log,
      now,
      loadPlacement: createPlacementLoader(assignment),
      loadRun: (attemptId) => loadRun(assignment, attemptId),
      loadGates: (projectIds) => loadGates(db, gateSecret, projectIds),
      ownsLog: (nodeId, streamId, tx) => ownsLogStream(tx, nodeId, streamId),
      baseImages,
    }),
  );

  // A project is locked while artifacts of it are deleted, so a registry that does not answer is given up soon.
  const janitor = stack.use(createRegistry({ ...registryOptions, timeoutMs: janitorTimeoutMs }));
  const collector = createCollector({ db, registry: janitor, log, now });
  const mailer = createMailer(config.mail, now);
  stack.defer(() => mailer?.close());
  stack.use(
    startWorkers({
      db,
      listener,
      log,
      owner: serverId,
      leaseMs: workLeaseMs,
      metrics,
      onTurn: pulse.expect("work queue", turnWithinMs),
      groups: workGroups({ config, db, etcd, fleet, registry, secrets, collector, mailer, log, now }),
    }),
  );
  const memory: SchedulerMemory = { hints: null };
  // Also with the scheduler flag off: one node is then all that there is to choose from, and the flag only hides it.
  stack.use(
    startLeader({
      db,
      etcd,
      fleet,
      listener,
      log,
      serverId,
      gateSecret,
      memory,
      clusterEpoch: authority.epoch,
      metrics,
      now,
      collector,
      sweepAccountRepositories: (signal) => sweepAccountRepositories({ db, registry: janitor, log }, signal),
      collectBaseImages: (signal) => collectBaseImages({ db, registry: janitor, log }, signal),
      previewIdleDays: config.previewIdleDays,
      drainMs: config.drainMs,
    }),
  );

  const server = buildServer(
    {
      config,
      db,
      log,
      registry,
      secrets,
      cluster: authority,
      now,
      newId: randomUUID,
      queryLog: (nodeId, placementId, lines) =>
        queryLog({ db, listen: listener }, nodeId, placementId, lines, logQueryMs),
      fleet: fleetView(fleet, memory),
      operators: operatorFacts({ serverId, etcd, fleet, ...config.etcd }),
    },
    { metrics },
  );
  await server.listen({ host: config.apiListen.host, port: config.apiListen.port });
  stack.defer(() => server.close());
  const address = server.server.address();
  const apiPort = typeof address === "object" && address !== null ? address.port : config.apiListen.port;
  const { metricsListen } = config;
  const view = fleetView(fleet, memory);
  const machines = () => listNodes(db, view);
  const operators =
    metricsListen === null
      ? null
      : stack.use(
          await serveMetrics(metricsListen, {
            metrics,
            pulse,
            log,
            db,
            pool,
            etcd,
            fleet,
            machines,
            nowMs: leaseClockMs,
          }),
        );
  const metricsPort = operators?.port ?? null;
  log.info({ apiPort, linkPort: link.linkPort, enrollPort: link.enrollPort, metricsPort }, "ready");

  const owned = stack.move();
  return {
    apiPort,
    metricsPort,
    linkPort: link.linkPort,
    enrollPort: link.enrollPort,
    [Symbol.asyncDispose]: () => owned[Symbol.asyncDispose](),
  };
}

export interface WorkParts {
  config: Config;
  db: Db;
  etcd: Etcd;
  fleet: Fleet;
  registry: Registry;
  secrets: Secrets;
  collector: Collector;
  mailer: Mailer | null;
  log: Log;
  now: () => Date;
}

/** Everything that a replica works on, and what shares room. What each kind does after too many failures: `work/resume.ts`. */
export function workGroups({ config, secrets, collector, mailer, ...work }: WorkParts): WorkGroup[] {
  const { db, fleet, registry, log } = work;
  return [
    {
      concurrency: deploysAtOnce,
      handlers: {
        deploy: deployWorker({
          ...work,
          resolveImage: createImageResolver({
            db,
            secrets,
            log,
            registry,
            rules: referenceRules(config),
            platforms: async () => listSchedulableNodes(db, fleet),
          }),
        }),
      },
    },
    {
      concurrency: otherWorkAtOnce,
      handlers: {
        retire: retireWorker({ ...work, drainMs: config.drainMs }),
        remove: removeWorker({ ...work, drainMs: config.drainMs }),
        lifecycle: lifecycleWorker(work),
        teardown: teardownWorker({ ...work, collector }),
        [deleteUserKind]: deleteUserWorker(work),
        rename: renameWorker({ ...work, content: config.content }),
        suspension: suspensionWorker({ ...work, drainMs: config.drainMs }),
        "quota-notice": quotaNoticeWorker({ db, mailer, apiUrl: config.apiUrl }),
      },
    },
    { concurrency: limitsAtOnce, handlers: { [applyLimitsKind]: applyLimitsWorker(work) } },
  ];
}

/** How the settings say that etcd is reached. */
export function etcdOptions({ etcd: { endpoints, tls } }: Config) {
  return { endpoints, ...(tls && { tls }) };
}
