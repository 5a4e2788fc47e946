import { readFile } from "node:fs/promises";
import { hostAndPort } from "@svc/proto";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { createPulse } from "@svc/telemetry";
import { createEndpoints, FencedError, forgetIdentity, type Identity, joinCluster, loadIdentity } from "@svc/uplink";
import { type Config, ConfigError } from "./config.ts";
import { knownDatabases } from "./databases/told.ts";
import { type Journal, openJournal } from "./journal/journal.ts";
import { type Link, mutualTls } from "./link.ts";
import { createLog, type Log } from "./log.ts";
import { createMetrics } from "./metrics/metrics.ts";
import { type Readiness, serveMetrics } from "./metrics/serve.ts";
import { createHostEgress } from "./network/host-egress.ts";
import { createIsolationGuard } from "./network/iptables.ts";
import { rememberFormer } from "./node/former.ts";
import { runNode } from "./node/run.ts";
import { knownRegistry } from "./session.ts";
import { usualLookMs } from "./storage/watch.ts";

const [clock, random] = [systemClock, systemRandom];

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
            ...proxyHosts(journal, config.databaseProxy),
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
          clock,
          random,
          config,
          identity,
          journal,
          log,
          endpoints,
          isolation,
          openLink: deps.openLink ?? mutualTls(clock, endpoints),
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
        if (cause instanceof FencedError) {
          const was = await loadIdentity(config.dir);
          if (was !== null) await rememberFormer(config.dir, was.id);
          await forgetIdentity(config.dir);
        }
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

/** Where proxies are that lead to databases of other machines: they listen at the same port on all of them. */
const proxyHosts = (journal: Journal, { peerPort }: Config["databaseProxy"]): string[] => {
  const addresses = new Set((knownDatabases(journal)?.entries ?? []).map(({ address }) => address));
  return [...addresses].filter(Boolean).map((address) => hostAndPort(address, peerPort));
};

/** Where the cluster's registry is, once control has told. */
const registryHosts = (journal: Journal): string[] => {
  const registry = knownRegistry(journal);
  if (registry === null) return [];
  const hasPort = /:\d+$/.test(registry.host);
  return [hasPort ? registry.host : `${registry.host}:${registry.insecure ? 80 : 443}`];
};
