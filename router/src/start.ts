import { readFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { FencedError, forgetIdentity, type Identity, JoinRefusedError, joinCluster, loadIdentity } from "@svc/link";
import { createRegistryPull } from "./bundles/pull.ts";
import type { Config } from "./config.ts";
import { type ControlLink, openControlLink } from "./control-link.ts";
import { startEdge } from "./edge.ts";
import { createLog, type Log } from "./log.ts";
import { createWatch, type Watch } from "./watch.ts";

export interface Router extends AsyncDisposable {
  /** Settles when Caddy has its configuration for the first time. */
  ready: Promise<void>;
}

const version = "0.1.0";
const tokenAgainMs = 5000;

/**
 * Starts the router. Sites are served from what is on this machine before anybody is asked; control and
 * Caddy may come and go. Caddy is started by somebody else, with `bootConfig` of render/render.ts.
 */
export async function start(config: Config, deps: { log?: Log } = {}): Promise<Router> {
  const log = deps.log ?? createLog(config.logLevel);
  await using opened = new AsyncDisposableStack();
  const registry = opened.use(createRegistryPull());
  let watch: Watch | null = null;
  const { applier, gates, traffic, ...edge } = opened.use(
    await startEdge(config, { pull: registry.pull, onApplied: (state) => watch?.report(state), log }),
  );
  const stop = new AbortController();
  const following = followControl(config, stop.signal, log, (link) => {
    watch = createWatch({
      transport: link.transport,
      applier,
      gates,
      traffic,
      address: addressOf(config.httpListen),
      version,
      onRegistry(access) {
        registry.setAccess(access);
        applier.poke();
      },
      log,
    });
    return watch.follow(stop.signal);
  });
  opened.defer(async () => {
    stop.abort();
    await following;
  });
  const ready = edge.ready.then(() => log.info("ready"));
  const running = opened.move();
  return { ready, [Symbol.asyncDispose]: () => running.disposeAsync() };
}

/**
 * Gets an identity, with the bootstrap token if there is none, and follows control under it. Fenced, it
 * forgets the identity and waits for another token. Visitors are served all the same.
 */
async function followControl(
  config: Config,
  signal: AbortSignal,
  log: Log,
  follow: (link: ControlLink) => Promise<void>,
): Promise<void> {
  const dir = join(config.dir, "identity");
  try {
    while (!signal.aborted) {
      const identity = (await loadIdentity(dir)) ?? (await enroll(config, dir, signal, log));
      await using link = openControlLink({ dir, identity, linkUrl: config.linkUrl, log });
      try {
        await follow(link);
      } catch (cause) {
        if (!(cause instanceof FencedError)) throw cause;
        log.error({ reason: cause.message }, "this edge was fenced: it serves what it has, and needs a new token");
        await forgetIdentity(dir);
      }
    }
  } catch (err) {
    if (!signal.aborted) log.error({ err }, "this edge does not follow control");
  }
}

async function enroll(config: Config, dir: string, signal: AbortSignal, log: Log): Promise<Identity> {
  const proposedName = `edge-${hostname()}`.slice(0, 63);
  let refused: string | null = null;
  for (;;) {
    const token = await readToken(config.bootstrapTokenFile);
    if (token !== null && token !== refused) {
      try {
        return await joinCluster({ dir, enrollUrl: config.enrollUrl, token, proposedName, signal, log });
      } catch (err) {
        if (!(err instanceof JoinRefusedError)) throw err;
        log.error({ err }, "the bootstrap token was refused: put another into its file");
        refused = token;
      }
    }
    await delay(tokenAgainMs, undefined, { signal });
  }
}

/** Null while there is none: it may be put there later. */
async function readToken(path: string | null): Promise<string | null> {
  if (path === null) return null;
  try {
    return (await readFile(path, "utf8")).trim();
  } catch {
    return null;
  }
}

/** The host part of host:port; this machine's name where it is every address. */
function addressOf(listen: string): string {
  const host = listen.slice(0, listen.lastIndexOf(":")).replace(/^\[|\]$/g, "");
  return host === "" ? hostname() : host;
}
