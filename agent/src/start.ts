import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { createClient, type Transport } from "@connectrpc/connect";
import { limits } from "@svc/proto/limits";
import { NodeService } from "@svc/proto/node";
import { pause } from "@svc/runtime/sleep";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { createWake } from "@svc/runtime/wake";
import { createPulse, type Pulse } from "@svc/telemetry";
import {
  createEndpoints,
  createTransport,
  type Endpoints,
  FencedError,
  forgetIdentity,
  type Identity,
  joinCluster,
  loadIdentity,
  renewLoop,
  takeNextIdentity,
} from "@svc/uplink";
import { buildLogMaxBytes, createBuilder } from "./build/builder.ts";
import { createStepLimiter, type StepLimiter } from "./build/step-limits.ts";
import { clearNode } from "./clear.ts";
import { comeBack, IdentityReplacedError } from "./come-back.ts";
import { type Config, ConfigError } from "./config.ts";
import { createDockerEngine } from "./engine/docker.ts";
import { type Engine, labels } from "./engine/engine.ts";
import { watchEngine } from "./housekeeping.ts";
import { createImages } from "./images/images.ts";
import { type Journal, openJournal } from "./journal/journal.ts";
import { createLog, type Log } from "./log.ts";
import { type Append, openLogStream } from "./logs/log-stream.ts";
import { createLogAnswers } from "./logs/query.ts";
import { openTails } from "./logs/tails.ts";
import { countCalls, countStatuses } from "./metrics/count.ts";
import { createMetrics, type Metrics } from "./metrics/metrics.ts";
import { type Readiness, serveMetrics, watchGauges } from "./metrics/serve.ts";
import { isolatePorts } from "./network/bridge-ports.ts";
import { createHostEgress } from "./network/host-egress.ts";
import { createIsolationGuard, type IsolationGuard } from "./network/iptables.ts";
import { createNetworks } from "./network/networks.ts";
import { createPorts } from "./network/ports.ts";
import { createPlacements } from "./placements/placements.ts";
import { createRunner } from "./placements/runner.ts";
import { createClusterRegistry } from "./registry.ts";
import { createRuns, type Runs } from "./runs/runs.ts";
import { converse, knownRegistry } from "./session.ts";
import { measureCapacity } from "./stats/capacity.ts";
import { createDiskWatch } from "./stats/disk.ts";
import { createEngineWatch } from "./stats/engine.ts";
import { createMemoryWatch } from "./stats/memory.ts";
import { sampleLoop } from "./stats/sampler.ts";
import { createStatusReporter } from "./status-reporter.ts";
import { usualLookMs, watchStorage } from "./storage/watch.ts";
import { createTidy, type Tidy } from "./tidy.ts";

const [clock, random] = [systemClock, systemRandom];

/** How the agent reaches control. */
export interface Link {
  session: Transport;
  /** For logs, samples and the like. */
  bulk: Transport;
  /** Ends the session; calls on `bulk` go on. */
  endSession(): void;
  close(): void;
}

export interface Deps {
  log?: Log;
  /** In place of mutual TLS to `linkUrls`; called again after each renewal of the certificate. */
  openLink?(identity: Identity): Link;
  /** How often what containers and builds wrote is looked at. */
  lookEveryMs?: number;
}

export type Agent = AsyncDisposable & {
  /** Settles when the agent has ended by itself: fenced, not let in, or under another identity. Never rejects. */
  readonly ended: Promise<Error | null>;
  /** Settles with the first session, with the id of the node. */
  readonly ready: Promise<string>;
  /** Null without a listener for metrics. */
  readonly metricsPort: number | null;
};

/** Longer than any call on a connection that another one has replaced. */
const callsEndMs = 60_000;
/** Control answers in a few seconds, if only that it is at work. */
const askTimeoutMs = 30_000;
/** A survey every half minute, each of whose calls to the engine has its deadline. */
const turnWithinMs = 300_000;

/**
 * Starts the agent of one node. What the journal knows is kept running at once; control is joined and spoken to
 * in the background, for as long as it takes. Disposing leaves the containers as they are.
 *
 * @throws JournalBusyError when another agent uses the directory, ConfigError when it cannot join at all
 */
export async function start(config: Config, deps: Deps = {}): Promise<Agent> {
  const log = deps.log ?? createLog(config.logLevel);
  const journal = openJournal(config.dir);
  if (journal.unreadable > 0)
    log.warn(
      { entries: journal.unreadable },
      "entries of the journal do not open with its key: asking control for them",
    );
  const stop = new AbortController();
  const { promise: ready, resolve: becomeReady } = Promise.withResolvers<string>();
  try {
    const token = await readToken(config);
    const metrics = createMetrics({ process: config.metricsListen !== null });
    const readiness: Readiness = { connected: false, engine: null };
    const pulse = createPulse(clock.steadyMs);
    const operators =
      config.metricsListen === null
        ? null
        : await serveMetrics(clock, config.metricsListen, { metrics, pulse, state: readiness, log });
    const live = async (): Promise<Error | null> => {
      const isolation = createIsolationGuard({
        buildBridge: config.buildBridge,
        egress: createHostEgress({
          clock,
          ...{ ...config.egress, dir: config.dir, buildBridge: config.buildBridge, log },
          servers: () => [
            ...[...config.enrollUrls, ...config.linkUrls].map((url) => new URL(url).host),
            ...registryHosts(journal),
          ],
        }),
        log,
      });
      try {
        // Rules of a former start may not know where control is now. The engine may come later, and so do its rules.
        const assertRules = () =>
          isolation.assert().catch((cause: unknown) => log.debug({ reason: String(cause) }, "rules are not whole yet"));
        await assertRules();
        const identity = await joinCluster({
          clock,
          random,
          dir: config.dir,
          enrollUrls: config.enrollUrls,
          token,
          proposedName: config.name,
          // What names mean may be known later, or change: this machine's own rules must not be in the way.
          prepare: assertRules,
          signal: stop.signal,
          log,
        });
        const endpoints = createEndpoints(config.linkUrls, random);
        await runNode({
          config,
          identity,
          journal,
          log,
          endpoints,
          isolation,
          openLink: deps.openLink ?? mutualTls(endpoints),
          lookEveryMs: deps.lookEveryMs ?? usualLookMs,
          onReady: () => becomeReady(identity.id),
          metrics,
          readiness,
          pulse,
          signal: stop.signal,
        });
        return null;
      } catch (cause) {
        if (stop.signal.aborted) return null;
        if (cause instanceof FencedError) await forgetIdentity(config.dir);
        return cause instanceof Error ? cause : new Error(String(cause));
      }
    };
    const ended = live();
    return {
      ended,
      ready,
      metricsPort: operators?.port ?? null,
      async [Symbol.asyncDispose]() {
        stop.abort();
        await ended;
        await operators?.[Symbol.asyncDispose]();
        journal[Symbol.dispose]();
      },
    };
  } catch (cause) {
    journal[Symbol.dispose]();
    throw cause;
  }
}

/** The bootstrap token; empty when the node has joined before, since it is not needed any more. */
async function readToken({ dir, bootstrapTokenFile }: Config): Promise<string> {
  if ((await loadIdentity(dir)) !== null) return "";
  if (bootstrapTokenFile === null) {
    throw new ConfigError("SVC_BOOTSTRAP_TOKEN_FILE: is needed until this node has joined a cluster");
  }
  try {
    return (await readFile(bootstrapTokenFile, "utf8")).trim();
  } catch (cause) {
    throw new ConfigError(`SVC_BOOTSTRAP_TOKEN_FILE: cannot read ${bootstrapTokenFile}`, { cause });
  }
}

const mutualTls =
  (endpoints: Endpoints) =>
  (identity: Identity): Link => {
    const session = createTransport(clock, identity, endpoints);
    const bulk = createTransport(clock, identity, endpoints);
    return {
      session: session.transport,
      bulk: bulk.transport,
      endSession: session.close,
      close() {
        session.close();
        bulk.close();
      },
    };
  };

/**
 * Everything that runs once the node knows who it is. Ends with `signal`, or throws when the node is fenced or has
 * another identity.
 */
async function runNode(options: {
  config: Config;
  identity: Identity;
  journal: Journal;
  endpoints: Endpoints;
  isolation: IsolationGuard;
  openLink(identity: Identity): Link;
  lookEveryMs: number;
  onReady(): void;
  metrics: Metrics;
  readiness: Readiness;
  pulse: Pulse;
  signal: AbortSignal;
  log: Log;
}): Promise<void> {
  const { config, identity, journal, isolation, log } = options;
  const over = new AbortController();
  const signal = AbortSignal.any([options.signal, over.signal]);
  const owner = { clusterId: identity.clusterId, nodeId: identity.id };
  journal.claim(`${identity.clusterId}/${identity.id}/${identity.incarnation}`);
  const { metrics, readiness, pulse } = options;
  const engine = countCalls(
    clock,
    createDockerEngine({ socketPath: config.dockerSocket, owner, clock, random }),
    metrics,
  );
  readiness.engine = engine;
  const { buildBridge } = config;
  const limiter = createStepLimiter({
    clock,
    owner,
    engineDir: async () => (await engine.describe()).rootDir,
    isolate: async () => (buildBridge === null ? undefined : isolatePorts(buildBridge)),
    log,
  });
  await removeLeftovers(config, engine, limiter, log);
  const tails = await openTails(clock, join(config.dir, "tails", `${identity.id}.${identity.incarnation}`));
  let link = options.openLink(identity);
  const client = () => createClient(NodeService, link.bulk);
  const registry = createClusterRegistry({
    clock,
    random,
    find: () => knownRegistry(journal),
    issue: (wish, within) => client().issueRegistryToken(wish, { signal: within }),
    log,
  });

  const append: Append = async (request, within) => (await client().appendLog(request, { signal: within })).length;
  const openLog = (streamId: string, replays: boolean, maxBytes: number) =>
    openLogStream({ clock, streamId, append, replays, maxBytes, signal, log });
  // Making room needs to know what is in use, and whatever takes room asks whether there is any.
  let tidy: Tidy | null = null;
  const disk = createDiskWatch({
    clock,
    findDirs: async () => [config.dir, (await engine.describe()).rootDir],
    set: config.diskFloorMb,
    reclaim: async (isEnough) => tidy?.reclaim(isEnough),
    log,
  });
  const memory = createMemoryWatch({ clock, set: config.memoryFloorMb, log });
  const engineWatch = createEngineWatch({ clock, engine, log });
  const images = createImages({ clock, engine, journal, registry, checkDisk: disk.check });
  const networks = createNetworks({ engine, owner, pool: config.subnets, isolated: isolation.ready });
  const reporter = createStatusReporter(clock);
  // Placements and runs share networks, so each asks the other before one is removed.
  let runs: Runs | null = null;
  const countStatus = countStatuses(metrics, (id) => placements.find(id)?.placement.spec.case === "build");
  const placements = createPlacements({
    clock,
    journal,
    engine,
    onStatus(status) {
      countStatus(status);
      reporter.report(status);
    },
    log,
    createRunner: ({ isNetworkNeeded, isPortHeld }) =>
      createRunner({
        clock,
        engine,
        images,
        networks,
        ports: createPorts(clock, random, config.address, config.ports),
        tails,
        builder: createBuilder({
          clock,
          engine,
          journal,
          images,
          askForBaseImage: (request, within) =>
            client().fetchBaseImage(request, { signal: within, timeoutMs: askTimeoutMs }),
          registry,
          openLog: (placementId) => openLog(placementId, false, buildLogMaxBytes),
          spoolDir: spoolDir(config),
          limiter,
          lookEveryMs: options.lookEveryMs,
          owner,
          log,
          isolated: isolation.ready,
          checkDisk: disk.check,
        }),
        address: config.address,
        isNetworkNeeded: (projectId, channel, except) =>
          isNetworkNeeded(projectId, channel, except) || (runs?.isNetworkNeeded(projectId, channel) ?? false),
        isPortHeld,
        log,
      }),
  });
  runs = createRuns({
    clock,
    journal,
    engine,
    images,
    networks,
    openLog: (attemptId) => openLog(attemptId, true, limits.jobLogBytesMax),
    isNetworkNeeded: (projectId, channel) => placements.isNetworkNeeded(projectId, channel, ""),
    log,
  });
  const { noteContainer, survey, isNetworkNeeded, writers } = runs;
  tidy = createTidy({
    clock,
    engine,
    owner,
    journal,
    networks,
    placements: placements.list,
    isNetworkNeeded: (projectId, channel) =>
      placements.isNetworkNeeded(projectId, channel, "") || isNetworkNeeded(projectId, channel),
    askGone: async (projectIds) =>
      (await client().listGoneProjects({ projectIds: [...projectIds] }, { signal, timeoutMs: 10_000 })).gone,
    tails,
    registryHost: () => registry.find()?.host ?? null,
    buildCacheMb: config.buildCacheMb,
    log,
  });

  watchGauges(clock, metrics, { dir: config.dir, engine, journal, placements, disk, memory, reporter });
  const renewal = createWake(clock);
  const background: Promise<unknown>[] = [
    watchEngine({
      clock,
      engine,
      onContainer(name) {
        placements.noteContainer(name);
        noteContainer(name);
      },
      onTurn: pulse.expect("survey", turnWithinMs),
      async survey(containers) {
        await placements.survey(containers);
        await survey(containers);
      },
      isolation,
      signal,
      log,
    }),
    tidy.run(signal),
    disk.watch(signal),
    memory.watch(signal),
    engineWatch.watch(signal),
    watchStorage({
      clock,
      engine,
      writers: () => [...placements.writers(), ...writers()],
      everyMs: options.lookEveryMs,
      signal,
      log,
    }),
    sampleLoop({
      clock,
      engine,
      list: placements.list,
      report: async (samples) => void (await client().reportSamples({ samples }, { signal, timeoutMs: 10_000 })),
      signal,
      log,
    }),
    renewLoop({
      clock,
      random,
      dir: config.dir,
      identity,
      renew: (csr, within) => client().renewCertificate({ csr }, { signal: within }),
      wanted: renewal,
      onRenewed(renewed) {
        const former = link;
        link = options.openLink(renewed);
        // Control goes by the certificate that a session was opened with, so another one is opened; calls end by themselves.
        former.endSession();
        background.push(pause(clock, callsEndMs, signal).then(former.close));
      },
      signal,
      log,
    }),
  ];
  let replaced = false;
  const returning = comeBack({
    clock,
    random,
    config,
    former: identity,
    async askGone(next, nodeIds) {
      const asking = options.openLink(next);
      try {
        const { gone } = await createClient(NodeService, asking.bulk).listGoneNodes(
          { nodeIds },
          { signal, timeoutMs: 10_000 },
        );
        return gone;
      } finally {
        asking.close();
      }
    },
    signal,
    log,
  }).then(async (next) => {
    if (next === null) return;
    log.warn({ next: next.id }, "the node that this was is gone: removing everything that it ran here");
    await clearNode({ placements, engine }, signal);
    if (signal.aborted) return;
    await takeNextIdentity(config.dir);
    replaced = true;
    over.abort();
  });
  background.push(
    returning.catch((cause: unknown) =>
      log.warn({ reason: String(cause) }, "this node cannot come back yet: restart its agent"),
    ),
  );
  try {
    await converse({
      clock,
      random,
      identity,
      endpoints: options.endpoints,
      transports: () => link,
      journal,
      engine,
      answerLogQuery: createLogAnswers({ clock, engine, tails, find: placements.find }),
      placements,
      runs,
      reporter,
      tidy,
      disk,
      memory,
      engineWatch,
      metrics,
      readiness,
      describe: async () => ({
        address: config.address,
        labels: config.labels,
        capacity: await measureCapacity(config.dir, config),
      }),
      renewal,
      onReady: options.onReady,
      onRegistry: () =>
        void isolation.assert().catch((cause: unknown) => log.warn({ reason: String(cause) }, "rules are not whole")),
      signal,
      log,
    });
  } finally {
    over.abort();
    link.close();
    await Promise.all([...background, placements[Symbol.asyncDispose](), runs[Symbol.asyncDispose]()]);
  }
  if (replaced) throw new IdentityReplacedError("this node has another identity from now on");
}

/** What a former life of this agent broke off in the middle of a build. Nothing of it is in use yet. */
async function removeLeftovers(config: Config, engine: Engine, limiter: StepLimiter, log: Log): Promise<void> {
  await rm(spoolDir(config), { recursive: true, force: true });
  try {
    await limiter.removeLeftovers();
  } catch (cause) {
    log.warn({ reason: String(cause) }, "what is left of former builds could not be removed");
  }
  try {
    for (const container of await engine.listContainers()) {
      if (container.labels[labels.kind] === "export") await engine.removeContainer(container.name);
    }
  } catch (cause) {
    log.warn({ reason: String(cause) }, "the container engine does not answer yet");
  }
}

/** Where the cluster's registry is, once control has told. */
const registryHosts = (journal: Journal): string[] => {
  const registry = knownRegistry(journal);
  if (registry === null) return [];
  const hasPort = /:\d+$/.test(registry.host);
  return [hasPort ? registry.host : `${registry.host}:${registry.insecure ? 80 : 443}`];
};

const spoolDir = (config: Config): string => join(config.dir, "spool");
