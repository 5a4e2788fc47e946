import { createRegistry, createTokenSigner, type Registry, type RegistryOptions } from "@svc/registry";
import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { createPulse } from "@svc/telemetry";
import { queryLog } from "./fleet/agents/log-query.ts";
import { keepAnalytics } from "./fleet/analytics/keep.ts";
import { loadSalts } from "./fleet/analytics/salts.ts";
import { type Collector, createCollector } from "./fleet/artifacts/collect.ts";
import { collectBaseImages } from "./fleet/base-images/collect.ts";
import { createBaseImages } from "./fleet/base-images/fetch.ts";
import { openAuthority } from "./fleet/ca/authority.ts";
import { createDnsWriter } from "./fleet/certificates/dns-writer.ts";
import { startCertificates } from "./fleet/certificates/start.ts";
import { certificateKind } from "./fleet/certificates/worker.ts";
import { watchCutOff } from "./fleet/cluster/cut-off.ts";
import { createFleet, type Fleet } from "./fleet/cluster/fleet.ts";
import { operatorFacts } from "./fleet/cluster/operators.ts";
import { announceServer } from "./fleet/cluster/presence.ts";
import { watchCluster } from "./fleet/cluster/views.ts";
import { startLink } from "./fleet/daemons/start.ts";
import { checkKind, copiesKind } from "./fleet/databases/checks.ts";
import { addressSet } from "./fleet/images/address-set.ts";
import { createWebhookEgress } from "./fleet/images/egress.ts";
import { referenceRules } from "./fleet/images/reference.ts";
import { systemAddresses } from "./fleet/images/resolve.ts";
import { applyLimitsWorker } from "./fleet/limits/worker.ts";
import { listNodes } from "./fleet/nodes/view.ts";
import { lastDecision, requireRecovered } from "./fleet/recovery/check.ts";
import { createRegistryTokens } from "./fleet/registry-tokens/issue.ts";
import { gateSecretOf, loadGates, passOf } from "./fleet/routes/gate.ts";
import type { SchedulerMemory } from "./fleet/scheduler/score.ts";
import { listSchedulableNodes } from "./fleet/scheduler/snapshot.ts";
import { createPlacementLoader, findLogBytesMax, loadRun } from "./fleet/tasks/assignment.ts";
import { lineOpener } from "./fleet/tunnels/line.ts";
import { createTunnels } from "./fleet/tunnels/tunnels.ts";
import { fleetView } from "./fleet/view.ts";
import { createMailer, type Mailer } from "./identity/mail/mailer.ts";
import { applyLimitsKind } from "./identity/plans/apply-limits.ts";
import { databaseKind } from "./identity/plans/reconcile-databases.ts";
import { startLeader } from "./leader.ts";
import { createLog, type Log } from "./log.ts";
import { createMetrics } from "./metrics/metrics.ts";
import { buildServer } from "./server.ts";
import type { Config } from "./settings/settings.ts";
import { clockOffset, followDatabaseClock } from "./stores/db/clock.ts";
import { createListener } from "./stores/db/listen.ts";
import { migrate } from "./stores/db/migrate.ts";
import { notify } from "./stores/db/notify.ts";
import { createPool, type Db, fromPool } from "./stores/db/pool.ts";
import { seedPlans } from "./stores/db/seed.ts";
import { createResolver, type Resolver } from "./stores/dns/resolver.ts";
import { createEtcd, type Etcd } from "./stores/etcd/index.ts";
import { type Bucket, createBucket } from "./stores/s3/bucket.ts";
import { createSecrets, type Secrets } from "./stores/secrets.ts";
import { workRows } from "./stores/work/rows.ts";
import { startWorkers, type WorkGroup, type WorkHandler } from "./stores/work/worker.ts";
import { sweepAccountRepositories } from "./tenants/account-registry/sweep.ts";
import { countEtcd, serveMetrics } from "./tenants/admin/metrics/start.ts";
import { deleteUserKind } from "./tenants/admin/users/deletion/request.ts";
import { deleteUserWorker } from "./tenants/admin/users/deletion/worker.ts";
import { deliverWorker } from "./tenants/alerts/deliver.ts";
import { alertWebhookWork } from "./tenants/alerts/kinds.ts";
import { alertWorkers } from "./tenants/alerts/worker.ts";
import { offsiteRound } from "./tenants/databases/backups/offsite/round.ts";
import { backupRows } from "./tenants/databases/backups/rows.ts";
import { backupWork } from "./tenants/databases/backups/store.ts";
import { backupWorker } from "./tenants/databases/backups/worker.ts";
import { changeRows } from "./tenants/databases/changes/rows.ts";
import { changeKind } from "./tenants/databases/changes/store.ts";
import { changeWorker } from "./tenants/databases/changes/worker.ts";
import { checkWorker } from "./tenants/databases/check/worker.ts";
import { fetchWork } from "./tenants/databases/copies/offsite/fetch/store.ts";
import { fetchWorker } from "./tenants/databases/copies/offsite/fetch/worker.ts";
import type { OpenCopyFiles } from "./tenants/databases/copies/offsite/node-files.ts";
import { createOffsiteCopies } from "./tenants/databases/copies/offsite/round.ts";
import { copyRows } from "./tenants/databases/copies/rows.ts";
import { copiesWorker } from "./tenants/databases/copies/worker.ts";
import { createFindReadyBranch } from "./tenants/databases/find-ready.ts";
import { proofWork } from "./tenants/databases/proofs/store.ts";
import { proofWorker } from "./tenants/databases/proofs/worker.ts";
import { branchRows } from "./tenants/databases/rows.ts";
import { sizeRecord } from "./tenants/databases/sizes.ts";
import type { OpenLine } from "./tenants/databases/sql/line.ts";
import { createSqlRunner, type SqlRunner } from "./tenants/databases/sql/runner.ts";
import { createTransfers } from "./tenants/databases/sql/transfers.ts";
import { createDatabaseAdmin } from "./tenants/databases/sql-admin.ts";
import { databaseWorker } from "./tenants/databases/worker.ts";
import { lifecycleRows } from "./tenants/deployments/lifecycle/rows.ts";
import { lifecycleWorker } from "./tenants/deployments/lifecycle/worker.ts";
import { createImageResolver } from "./tenants/deployments/oci/oci.ts";
import { deploysOnPostgres } from "./tenants/deployments/postgres.ts";
import { removeWorker } from "./tenants/deployments/remove/worker.ts";
import { retireRows } from "./tenants/deployments/retire/rows.ts";
import { retireWorker } from "./tenants/deployments/retire/worker.ts";
import { screenshotWork } from "./tenants/deployments/screenshots/store.ts";
import { screenshotWorker } from "./tenants/deployments/screenshots/worker.ts";
import { deployWorker } from "./tenants/deployments/worker.ts";
import { domainNoticeWorker, noticeWork } from "./tenants/domains/notices.ts";
import { domainWork } from "./tenants/domains/store.ts";
import { domainWorker } from "./tenants/domains/worker.ts";
import { teardownWorker } from "./tenants/projects/teardown/worker.ts";
import { renameWorker } from "./tenants/rename/worker.ts";
import { quotaNoticeWorker } from "./tenants/suspension/quota/worker.ts";
import { suspensionWorker } from "./tenants/suspension/worker.ts";

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
/** They wait for nodes most of the time, and nobody for them. */
const screenshotsAtOnce = 4;
/** Whoever asks for a database waits for it. */
const databasesAtOnce = 16;
/** A tenant is kept out while they wait for servers: each must have its turn at once. */
const changesAtOnce = 32;
/** Nobody waits for these, and each wants a child process. */
const checksAtOnce = 2;
const copiesAtOnce = 4;
/** Each may take hours, and new copies must not wait for them. */
const fetchesAtOnce = 2;
/** Each waits for servers of DNS, some of which never answer. */
const domainsAtOnce = 32;
/** Each waits for a CA and for edges most of the time, and CAs take so many orders in a time. */
const certificatesAtOnce = 8;
/** Each waits for somebody else's server, which may never answer. */
const webhooksAtOnce = 16;
/** One changed plan may concern thousands of projects, of which none is in a hurry. */
const limitsAtOnce = 2;
/** How long after its death a worker's item is taken over. */
const workLeaseMs = 10_000;
const etcdReadyMs = 60_000;
const dnsTimeoutMs = 6_000;
const logQueryMs = 10_000;
const janitorTimeoutMs = 10_000;
/** Longer than any statement may take: a loop that has not turned by then waits for something that never comes. */
const turnWithinMs = 120_000;

/** Starts one control replica on an up-to-date schema; disposing it stops everything it started, last started first. */
export async function start(config: Config, options: { log?: Log; clock?: Clock } = {}): Promise<ControlServer> {
  const log = options.log ?? createLog(config.logLevel);
  /** Of this machine, which somebody may set; what is dated for others is dated by `clock`. */
  const machineClock = options.clock ?? systemClock;
  const random = systemRandom;
  const serverId = random.uuid();
  await using stack = new AsyncDisposableStack();

  const ran = await migrate(machineClock, config.databaseUrl);
  if (ran.length > 0) log.info({ migrations: ran }, "schema migrated");
  const onError = (error: Error) => log.warn({ err: error }, "idle connection of the database failed");
  const pool = createPool({ url: config.databaseUrl, maxConnections: 20, onError });
  const db = fromPool(pool);
  stack.defer(() => db.destroy());
  const { clock } = stack.use(await followDatabaseClock(machineClock, db, log));
  await seedPlans(db);
  const listener = stack.use(createListener(clock, config.databaseUrl, log));
  const secrets = createSecrets(config.masterKeys);
  const gateSecret = gateSecretOf(config.authSecret);
  const authority = await openAuthority(db, secrets, { clock, random });
  const sign = createTokenSigner(random, config.registry.tokenKey, clock.now());
  const registryOptions: RegistryOptions = {
    url: config.registry.url,
    tokens: async (access) => sign("control", access, clock.now()),
  };
  const registry = stack.use(createRegistry(clock, registryOptions));
  const bucket = config.offsite && createBucket({ clock, random }, config.offsite);
  const registryHost = new URL(config.registry.url).host;

  const metrics = createMetrics({ process: config.metricsListen !== null });
  const pulse = createPulse(clock.bootMs);
  // Its calls end by the time of day of this process.
  const etcd = stack.use(
    createEtcd({ clock: machineClock, random, ...etcdOptions(config), log, observer: countEtcd(metrics) }),
  );
  const views = stack.use(watchCluster(etcd, log));
  const fleet = stack.use(createFleet(views, clock));
  await views.ready(etcdReadyMs);
  await requireRecovered(() => lastDecision(db), etcd);
  const { isAnnounced } = stack.use(
    announceServer({
      clock,
      etcd,
      log,
      serverId,
      startedAt: clock.now(),
      masterKeyIds: secrets.keyIds,
      address: config.apiListen.port === 0 ? null : `${config.apiListen.host}:${config.apiListen.port}`,
      readOffsetMs: async () => (await clockOffset(machineClock, db)).offsetMs,
    }),
  );
  const cutOff = stack.use(
    watchCutOff({
      clock,
      listener,
      serverId,
      isAnnounced,
      log,
      notify: (topic, payload) => notify(db, topic, payload),
    }),
  );
  const isCutOff = () => cutOff.isCutOff;

  const assignment = {
    db,
    secrets,
    registryHost,
    baseImage: config.baseImageNode,
    builderImage: config.builderImageNode,
    buildCaBundle: config.buildCaBundle,
    gatePass: (gate: Parameters<typeof passOf>[1]) => passOf(gateSecret, gate, clock.now()),
  };
  const baseImages = stack.use(
    createBaseImages({
      ...{ clock, db, log, registry, rules: referenceRules(config) },
      operators: [config.baseImageNode, config.builderImageNode],
    }),
  );
  const tunnels = createTunnels({ clock, random, db });
  const openLine = lineOpener(tunnels);
  const resolver = createResolver({ clock, servers: config.domains.dnsServers, timeoutMs: dnsTimeoutMs });
  const { acme } = config;
  const certificates =
    acme &&
    stack.use(
      startCertificates({
        ...{ clock, random, db, secrets, listener, resolver, fleet, acme, metrics, log },
        edgeHost: config.domains.edgeHost,
        wildcard: acme.wildcard && {
          name: acme.wildcard.name,
          dns: createDnsWriter({ clock, random }, acme.wildcard.dns),
        },
      }),
    );
  const link = stack.use(
    await startLink({
      config,
      registry: {
        host: registryHost,
        insecure: config.registry.url.startsWith("http:"),
      },
      registryTokens: createRegistryTokens({ clock, db, etcd, sign, log }),
      db,
      etcd,
      views,
      listener,
      authority,
      serverId,
      metrics,
      log,
      clock,
      random,
      loadPlacement: createPlacementLoader(clock, assignment),
      loadRun: (attemptId) => loadRun(assignment, attemptId),
      loadGates: (projectIds) => loadGates(db, gateSecret, projectIds),
      loadSalts: config.analytics ? () => loadSalts({ clock, db, secrets }) : null,
      certificates: certificates?.feed ?? null,
      logBytesMax: (nodeId, streamId, tx) => findLogBytesMax(tx, nodeId, streamId),
      baseImages,
      tunnels,
      isCutOff,
    }),
  );

  // A project is locked while artifacts of it are deleted, so a registry that does not answer is given up soon.
  const janitor = stack.use(createRegistry(clock, { ...registryOptions, timeoutMs: janitorTimeoutMs }));
  const collector = createCollector({ clock, db, registry: janitor, log });
  const sql = stack.use(createSqlRunner({ clock, log }));
  const mailer = createMailer({ clock, random }, config.mail);
  stack.defer(() => mailer?.close());
  stack.use(
    startWorkers({
      clock,
      rows: workRows(db),
      listener,
      log,
      owner: serverId,
      leaseMs: workLeaseMs,
      metrics,
      isCutOff,
      onTurn: pulse.expect("work queue", turnWithinMs),
      groups: workGroups({
        ...{ clock, random, config, db, etcd, fleet, registry, secrets, collector, mailer, log },
        ...{ openLine, sql, bucket, openCopyFiles: tunnels.open },
        resolver,
        workOnCertificates: certificates?.work ?? null,
      }),
    }),
  );
  const offsiteCopies =
    bucket && createOffsiteCopies({ clock, db, random, secrets, bucket, openCopyFiles: tunnels.open, log });
  const memory: SchedulerMemory = { hints: null };
  // Also with the scheduler flag off: one node is then all that there is to choose from, and the flag only hides it.
  stack.use(
    startLeader({
      clock,
      random,
      db,
      etcd,
      fleet,
      listener,
      log,
      serverId,
      gateSecret,
      memory,
      clusterEpoch: authority.epoch,
      keepsCopies: config.databases.copies === "auto",
      metrics,
      collector,
      sweepAccountRepositories: (signal) => sweepAccountRepositories({ clock, db, registry: janitor, log }, signal),
      ...(offsiteCopies && { offsiteCopies }),
      ...(bucket && { shipBackups: (signal) => offsiteRound({ db, random, registry, secrets, bucket, log }, signal) }),
      collectBaseImages: (signal) => collectBaseImages({ clock, db, registry: janitor, log }, signal),
      keepAnalytics: () => keepAnalytics({ clock, db, secrets, isWanted: config.analytics, log }),
      previewIdleDays: config.previewIdleDays,
      drainMs: config.drainMs,
      databaseImages: config.databases.images,
      takesScreenshots: config.captureImage !== "",
    }),
  );

  const view = fleetView(fleet, { memory, etcd });
  const server = buildServer(
    {
      config,
      db,
      log,
      registry,
      bucket,
      secrets,
      cluster: authority,
      clock,
      random,
      queryLog: (nodeId, placementId, lines) =>
        queryLog({ clock, random, db, listen: listener }, nodeId, placementId, lines, logQueryMs),
      fleet: view,
      studio: {
        ...{ ...sizeRecord, findReadyBranch: createFindReadyBranch(secrets), openLine, sql },
        transfers: createTransfers({ clock, log }),
      },
      mailer,
      operators: operatorFacts({ clock, machineClock, serverId, etcd, fleet, ...config.etcd }),
    },
    { metrics },
  );
  await server.listen({ host: config.apiListen.host, port: config.apiListen.port });
  stack.defer(() => server.close());
  const address = server.server.address();
  const apiPort = typeof address === "object" && address !== null ? address.port : config.apiListen.port;
  const { metricsListen } = config;
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
            clock,
            offsitePlace: bucket?.place ?? null,
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
  clock: Clock;
  random: Random;
  config: Config;
  db: Db;
  etcd: Etcd;
  fleet: Fleet;
  registry: Registry;
  secrets: Secrets;
  collector: Collector;
  mailer: Mailer | null;
  openLine: OpenLine;
  /** Outside of this site; null: there is none. */
  bucket: Bucket | null;
  openCopyFiles: OpenCopyFiles;
  sql: SqlRunner;
  resolver: Resolver;
  /** Null: there is no CA, and what was queued waits for one. */
  workOnCertificates: WorkHandler | null;
  log: Log;
}

/** Everything that a replica works on, and what shares room. What each kind does after too many failures: `work/resume.ts`. */
export function workGroups({
  config,
  secrets,
  collector,
  mailer,
  openLine,
  sql,
  bucket,
  openCopyFiles,
  resolver,
  workOnCertificates,
  ...work
}: WorkParts): WorkGroup[] {
  const { clock, random, db, fleet, registry, log } = work;
  const databases = {
    ...{ ...work, secrets, openLine },
    ...{ admin: createDatabaseAdmin(sql), images: config.databases.images },
  };
  return [
    {
      concurrency: deploysAtOnce,
      handlers: {
        deploy: deployWorker({
          ...work,
          ...deploysOnPostgres({
            ...work,
            resolveImage: createImageResolver({
              clock,
              random,
              db,
              secrets,
              log,
              registry,
              rules: referenceRules(config),
              platforms: async () => listSchedulableNodes(db, fleet),
            }),
          }),
        }),
      },
    },
    {
      concurrency: otherWorkAtOnce,
      handlers: {
        [backupWork]: backupWorker({ ...work, rows: backupRows(db) }),
        retire: retireWorker({ ...work, rows: retireRows(db), drainMs: config.drainMs }),
        remove: removeWorker({ ...work, drainMs: config.drainMs }),
        lifecycle: lifecycleWorker({ ...work, rows: lifecycleRows(db) }),
        teardown: teardownWorker({ ...work, collector }),
        [deleteUserKind]: deleteUserWorker(work),
        rename: renameWorker({ ...work, content: config.content }),
        suspension: suspensionWorker({ ...work, drainMs: config.drainMs }),
        "quota-notice": quotaNoticeWorker({ db, mailer, apiUrl: config.apiUrl }),
        [noticeWork]: domainNoticeWorker({ db, mailer, apiUrl: config.apiUrl }),
        ...alertWorkers({ db, mailer, apiUrl: config.apiUrl }),
      },
    },
    { concurrency: screenshotsAtOnce, handlers: { [screenshotWork]: screenshotWorker({ ...work, config }) } },
    {
      concurrency: databasesAtOnce,
      handlers: { [databaseKind]: databaseWorker({ ...databases, rows: branchRows(db, databases.images) }) },
    },
    {
      concurrency: changesAtOnce,
      handlers: { [changeKind]: changeWorker({ ...databases, rows: changeRows(db, databases.images) }) },
    },
    {
      concurrency: copiesAtOnce,
      handlers: {
        [copiesKind]: copiesWorker({
          ...{ ...databases, rows: copyRows(db, databases.images), isWanted: config.databases.copies === "auto" },
        }),
        [proofWork]: proofWorker({ ...databases, sql }),
      },
    },
    { concurrency: fetchesAtOnce, handlers: { [fetchWork]: fetchWorker({ ...work, secrets, bucket, openCopyFiles }) } },
    { concurrency: checksAtOnce, handlers: { [checkKind]: checkWorker({ ...work, secrets, openLine, sql }) } },
    {
      concurrency: domainsAtOnce,
      handlers: { [domainWork]: domainWorker({ db, log, resolver, settings: config.domains }) },
    },
    ...(workOnCertificates === null
      ? []
      : [{ concurrency: certificatesAtOnce, handlers: { [certificateKind]: workOnCertificates } }]),
    {
      concurrency: webhooksAtOnce,
      handlers: {
        [alertWebhookWork]: deliverWorker({
          ...{ clock, db, secrets, log },
          egress: createWebhookEgress(clock, systemAddresses, addressSet(config.webhookAllow)),
        }),
      },
    },
    { concurrency: limitsAtOnce, handlers: { [applyLimitsKind]: applyLimitsWorker(work) } },
  ];
}

/** How the settings say that etcd is reached. */
export function etcdOptions({ etcd: { endpoints, tls } }: Config) {
  return { endpoints, ...(tls && { tls }) };
}
