import { watch } from "node:fs";
import { mkdir } from "node:fs/promises";
import { databaseProxyFiles } from "@svc/proto/database-proxy";
import { entranceFiles } from "@svc/proto/entrances";
import { every } from "@svc/runtime/clock";
import { runLoop } from "@svc/runtime/loop";
import { pause } from "@svc/runtime/sleep";
import { systemClock as clock } from "@svc/runtime/system";
import { createWake } from "@svc/runtime/wake";
import { createPulse } from "@svc/telemetry";
import type { Config } from "./config.ts";
import { listenAtBridges } from "./doors/bridges.ts";
import { listenForKeepers } from "./doors/copy-doors.ts";
import { createDoor } from "./doors/door.ts";
import { createDoorways } from "./doors/doorways.ts";
import { createOpenServer } from "./doors/servers.ts";
import type { House } from "./doors/visit.ts";
import { listenForEdges } from "./entrances/entrances.ts";
import { createEntrancesReader } from "./entrances/load.ts";
import { createLog, type Log } from "./log.ts";
import { createMetrics } from "./metrics/metrics.ts";
import { serveMetrics } from "./metrics/serve.ts";
import { createCredentialStore } from "./peers/credentials.ts";
import { createDialPeer } from "./peers/dial.ts";
import { listenForPeers } from "./peers/listener.ts";
import { createCancelKeys } from "./sessions/cancel-keys.ts";
import { createCounts } from "./sessions/counts.ts";
import { createSessions } from "./sessions/sessions.ts";
import { createGoneReader, createTableReader } from "./table/load.ts";
import { stateOf } from "./table/state.ts";
import { writeState } from "./table/state-file.ts";
import { createTable } from "./table/table.ts";
import { createVisitors } from "./visitors.ts";

export interface DatabaseProxy extends AsyncDisposable {
  /** Null without a listener for metrics. */
  metricsPort: number | null;
  /**
   * Takes no new connection from now on, and resolves when those that are there have ended; what is left after
   * `drainMs`, or when `signal` aborts, is cut off by disposing. The table is followed meanwhile.
   */
  drain(signal: AbortSignal): Promise<void>;
}

/** As long as a move freezes writes. */
const heldMs = 10_000;
const clientMs = 10_000;
/** New connections of one database: enough for every pool that begins anew, and little for whoever guesses. */
const rate = { ratePerSecond: 20, burst: 60 };
const lookEveryMs = 5_000;
/** The file's replacement is told at once; an address that is missing is not. */
const lookAgainMs = 1_000;
const stateEveryMs = 10_000;
const stateRestMs = 250;
/** One round, of which a disk may make something long. */
const turnWithinMs = 60_000;

/**
 * Starts the database proxy. It serves by the table that is on this machine, whoever else is away, and may be started
 * beside one that runs: both listen until the other is told to drain.
 */
export async function start(config: Config, deps: { log?: Log } = {}): Promise<DatabaseProxy> {
  const { dir, serverMs, peerListen, metricsListen } = config;
  const log = deps.log ?? createLog(config.logLevel);
  await mkdir(dir, { recursive: true });
  await using opened = new AsyncDisposableStack();
  const metrics = createMetrics({ process: metricsListen !== null });
  const [table, counts, sessions, cancelKeys] = [createTable(), createCounts(), createSessions(), createCancelKeys()];
  const [look, tell] = [createWake(clock), createWake(clock)];
  const onChange = tell.signal;
  table.onChange((index) => {
    metrics.ended.inc(sessions.review(index));
    counts.keepOnly((databaseId) => index.byId.has(databaseId));
  });

  const credentials = createCredentialStore(dir, log);
  const openServer = createOpenServer({ clock, counts, rate, serverMs, onChange });
  const dialPeer = createDialPeer({ clock, credentials, serverMs, heldMs, log });
  const door = createDoor({ clock, table, openServer, dialPeer, heldMs });
  const house: House = { clock, table, door, sessions, counts, cancelKeys, metrics, clientMs, serverMs, onChange };
  const visitors = opened.use(createVisitors(house, log));
  opened.defer(() => sessions.endAll());
  const peers = { clock, table, sessions, openServer, serverMs, heldMs, metrics, log };
  const edges = listenForEdges({ clock, table, serverMs, metrics, log });
  const doorways = opened.use(
    createDoorways({
      bridges: listenAtBridges({ ports: config.ports, onClient: visitors.welcome, metrics, log }),
      copies: listenForKeepers({ clock, onKeeper: visitors.welcomeKeeper, metrics, log }),
      edges,
      credentials,
      listenForPeers: peerListen === null ? null : (own) => listenForPeers({ ...peers, listen: peerListen }, own),
      log,
    }),
  );

  const pulse = createPulse(clock.steadyMs);
  const turned = pulse.expect("table", turnWithinMs + lookEveryMs);
  const readTable = createTableReader({ dir, table, metrics, log });
  const readGone = createGoneReader({ dir, table, log });
  const readEntrances = createEntrancesReader({ dir, log });
  let served = table.current();
  let isListening = false;
  const follow = async (): Promise<void> => {
    const [entrances] = await Promise.all([readEntrances(), readTable(), readGone(), credentials.refresh()]);
    const index = table.current();
    isListening = await doorways.follow(index, entrances);
    served = index;
    tell.signal();
    turned();
  };
  const state = () => stateOf(process.pid, served, counts);
  metrics.beforeReading(() => metrics.counted.set(state().connections.reduce((sum, { open }) => sum + open, 0)));
  const readiness = () => ({ hasTable: served.generation > 0n, isListening });
  const operators =
    metricsListen === null
      ? null
      : opened.use(await serveMetrics(clock, metricsListen, { metrics, pulse, readiness, log }));

  await follow();
  const stop = new AbortController();
  let isDraining = false;
  const loop = { clock, signal: stop.signal, onError: (err: unknown) => log.error({ err }, "a round failed") };
  const loops = [
    runLoop({ ...loop, wake: look, periodMs: lookEveryMs }, follow),
    runLoop({ ...loop, wake: tell, periodMs: stateEveryMs, restMs: stateRestMs }, async () => {
      // What the process says that takes over is what counts.
      if (isDraining) return;
      await writeState(dir, databaseProxyFiles.state, state());
      await writeState(dir, entranceFiles.state, edges.state());
    }),
  ];
  opened.defer(async () => {
    stop.abort();
    await Promise.all(loops);
  });
  // What this process says itself is looked at only in case another one said something else.
  const isOwn = (name: string | null) =>
    [databaseProxyFiles.state, entranceFiles.state].some((own) => name?.startsWith(own));
  const watcher = watch(dir, (_event, name) => (isOwn(name) ? tell : look).signal());
  watcher.on("error", (err) => log.warn({ err }, "the directory is not watched: it is looked at by a period"));
  opened.defer(() => watcher.close());
  opened.use(
    every(clock, lookAgainMs, () => {
      if (!isListening) look.signal();
    }),
  );

  const running = opened.move();
  return {
    metricsPort: operators?.port ?? null,
    async drain(until) {
      isDraining = true;
      log.info({ sessions: sessions.size, visits: edges.size }, "draining");
      await Promise.all([doorways.close(), operators?.[Symbol.asyncDispose]()]);
      const over = new AbortController();
      const ended = Promise.all([sessions.none(), edges.none()]);
      await Promise.race([ended, pause(clock, config.drainMs, AbortSignal.any([until, over.signal]))]);
      over.abort();
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
}
