import { readFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { createClient } from "@connectrpc/connect";
import { EdgeService } from "@svc/proto/edge";
import { pause, sleep } from "@svc/runtime/sleep";
import { systemClock as clock, systemRandom as random } from "@svc/runtime/system";
import { version } from "@svc/runtime/version";
import { createPulse } from "@svc/telemetry";
import {
  createTransport,
  FencedError,
  forgetIdentity,
  type Identity,
  JoinRefusedError,
  joinCluster,
  loadIdentity,
  nextIdentity,
  takeNextIdentity,
} from "@svc/uplink";
import { createRegistryPull } from "./bundles/pull.ts";
import { usableCaddy } from "./caddy.ts";
import type { Config } from "./config.ts";
import { type ControlLink, openControlLink } from "./control-link.ts";
import { startEdge } from "./edge.ts";
import { createLog, type Log } from "./log.ts";
import { createMetrics } from "./metrics/metrics.ts";
import { type Readiness, serveMetrics, watchGauges } from "./metrics/serve.ts";
import { serveHealth } from "./rotation/health.ts";
import { createWatch, type Watch } from "./watch.ts";

export interface Router extends AsyncDisposable {
  /** Settles when Caddy has its configuration for the first time. */
  ready: Promise<void>;
  /** Null without a listener for metrics. */
  metricsPort: number | null;
  /** Null without a listener for health. */
  healthPort: number | null;
}

const tokenAgainMs = 5000;
/** After a failure that is nobody's word, such as one of the disk. */
const followAgainMs = 10_000;
/** One round of counting requests, of which a disk may make something long. */
const turnWithinMs = 120_000;

/**
 * Starts the router. Sites are served from what is on this machine before anybody is asked; control and
 * Caddy may come and go. Caddy is started by somebody else, with `bootConfig` of render/render.ts.
 */
export async function start(config: Config, deps: { log?: Log } = {}): Promise<Router> {
  const log = deps.log ?? createLog(config.logLevel);
  // Without it each visitor would be taken for the one balancer, so nothing is served at all.
  if (config.inFront.by !== "none") await usableCaddy(config.caddyBinary, config.inFront);
  await using opened = new AsyncDisposableStack();
  const registry = opened.use(createRegistryPull(clock));
  const bootId = await readBootId();
  let watch: Watch | null = null;
  const metrics = createMetrics({ process: config.metricsListen !== null });
  const pulse = createPulse(clock.steadyMs);
  const state: Readiness = { caddyConfigured: false };
  const { applier, gates, certificates, challenges, traffic, analytics, standing, rotation, entranceKeys, ...edge } =
    opened.use(
      await startEdge(config, {
        pull: registry.pull,
        onApplied: (state) => watch?.report(state),
        metrics,
        onTurn: pulse.expect("traffic", turnWithinMs + config.trafficEveryMs),
        clock,
        random,
        onConfigured(configured) {
          state.caddyConfigured = configured;
        },
        log,
      }),
    );
  watchGauges(metrics, clock, { applier, traffic, certificates });
  const operators =
    config.metricsListen === null
      ? null
      : opened.use(await serveMetrics(clock, config.metricsListen, { metrics, pulse, applier, state, log }));
  const health =
    config.healthListen === null ? null : opened.use(await serveHealth(config.healthListen, standing.unready, log));
  const stop = new AbortController();
  const onIdentity = (identity: Identity): void => {
    entranceKeys.use(identity).catch((err: unknown) => log.error({ err }, "nodes are shown an older certificate"));
  };
  const onFenced = rotation.forget;
  const following = followControl({ config, signal: stop.signal, onIdentity, onFenced, log }, (link, signal) => {
    standing.proveTime(link.since.getTime());
    registry.setTokens((repository, within) =>
      createClient(EdgeService, link.transport()).issueRegistryToken({ repository }, { signal: within }),
    );
    watch = createWatch({
      endpoints: link.endpoints,
      transport: link.transport,
      renewal: link.renewal,
      applier,
      gates,
      certificates,
      challenges,
      standing,
      traffic,
      analytics,
      address: addressOf(config.httpListen),
      version,
      bootId,
      metrics,
      onRegistry(access) {
        registry.setAccess(access);
        applier.poke();
      },
      clock,
      random,
      log,
    });
    return watch.follow(signal);
  });
  opened.defer(async () => {
    stop.abort();
    await following;
  });
  const ready = edge.ready.then(() => log.info("ready"));
  const running = opened.move();
  return {
    ready,
    metricsPort: operators?.port ?? null,
    healthPort: health?.port ?? null,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
}

/**
 * Gets an identity, with the bootstrap token if there is none, and follows control under it. Fenced, it
 * forgets the identity and waits for another token. Visitors are served all the same.
 */
async function followControl(
  {
    config,
    signal,
    onIdentity,
    onFenced,
    log,
  }: {
    config: Config;
    signal: AbortSignal;
    onIdentity(identity: Identity): void;
    onFenced(): Promise<void>;
    log: Log;
  },
  follow: (link: ControlLink, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const dir = join(config.dir, "identity");
  const followOnce = async (): Promise<void> => {
    const identity = (await loadIdentity(dir)) ?? (await enroll(config, dir, signal, log));
    await using link = openControlLink({
      ...{ clock, random, dir, identity, linkUrls: config.linkUrls, onIdentity, log },
      connect: createTransport,
    });
    const over = new AbortController();
    const within = AbortSignal.any([signal, over.signal]);
    const returning = returnAnew(config, dir, within, log).then((isAnother) => {
      if (isAnother) over.abort();
    });
    try {
      await follow(link, within);
    } catch (cause) {
      if (!(cause instanceof FencedError)) throw cause;
      log.error({ reason: cause.message }, "this edge was fenced: it serves what it has, and needs a new token");
      await onFenced();
      await forgetIdentity(dir);
    } finally {
      over.abort();
      await returning;
    }
  };
  while (!signal.aborted) {
    try {
      await followOnce();
    } catch (err) {
      if (signal.aborted) return;
      // Such as a disk that is full: nobody restarts a router that serves.
      log.error({ err }, "this edge does not follow control, and tries again");
      await pause(clock, followAgainMs, signal);
    }
  }
}

/**
 * Takes another identity once the certificate is over and there is another token. Nothing that this edge serves belongs
 * to its identity, so it need not wait for the former one to be removed. True when it did; false when `signal` aborted.
 */
async function returnAnew(config: Config, dir: string, signal: AbortSignal, log: Log): Promise<boolean> {
  const { enrollUrls, bootstrapTokenFile: tokenFile } = config;
  const about = { dir, enrollUrls, tokenFile, proposedName: proposedName() };
  let hasNext = false;
  while (!signal.aborted) {
    try {
      hasNext ||= (await nextIdentity({ clock, random, ...about, signal, log })) !== null;
      if (!hasNext) return false;
      await takeNextIdentity(dir);
      return true;
    } catch (err) {
      if (signal.aborted) return false;
      log.error({ err }, "this edge cannot come back yet, and tries again");
      await pause(clock, followAgainMs, signal);
    }
  }
  return false;
}

async function enroll(config: Config, dir: string, signal: AbortSignal, log: Log): Promise<Identity> {
  let refused: string | null = null;
  for (;;) {
    const token = await readToken(config.bootstrapTokenFile);
    if (token !== null && token !== refused) {
      try {
        return await joinCluster({
          clock,
          random,
          dir,
          enrollUrls: config.enrollUrls,
          token,
          proposedName: proposedName(),
          signal,
          log,
        });
      } catch (err) {
        if (!(err instanceof JoinRefusedError)) throw err;
        log.error({ err }, "the bootstrap token was refused: put another into its file");
        refused = token;
      }
    }
    await sleep(clock, tokenAgainMs, signal);
  }
}

const proposedName = (): string => `edge-${hostname()}`.slice(0, 63);

/** Null while there is none: it may be put there later. */
async function readToken(path: string | null): Promise<string | null> {
  if (path === null) return null;
  try {
    return (await readFile(path, "utf8")).trim();
  } catch {
    return null;
  }
}

/** Changes with every start of the machine. */
async function readBootId(): Promise<string> {
  try {
    return (await readFile("/proc/sys/kernel/random/boot_id", "utf8")).trim();
  } catch {
    return "unknown";
  }
}

/** The host part of host:port; this machine's name where it is every address. */
function addressOf(listen: string): string {
  const host = listen.slice(0, listen.lastIndexOf(":")).replace(/^\[|\]$/g, "");
  return host === "" ? hostname() : host;
}
