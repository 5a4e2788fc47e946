import { watch } from "node:fs";
import { mkdir } from "node:fs/promises";
import type { Socket } from "node:net";
import { join } from "node:path";
import { every } from "@svc/runtime/clock";
import { writeDurably } from "@svc/runtime/durable-file";
import { runLoop } from "@svc/runtime/loop";
import { pause } from "@svc/runtime/sleep";
import { systemClock as clock } from "@svc/runtime/system";
import { createWake } from "@svc/runtime/wake";
import { createPulse, startOperatorsListener } from "@svc/telemetry";
import type { Config } from "./config.ts";
import { createDoor } from "./doors/door.ts";
import { createOpenServer } from "./doors/servers.ts";
import type { House, Visit } from "./doors/visit.ts";
import { createListeners } from "./listeners.ts";
import { createLog, type Log } from "./log.ts";
import { visitMariadb } from "./mariadb/visit.ts";
import { createMetrics } from "./metrics/metrics.ts";
import { createCredentialStore } from "./peers/credentials.ts";
import { createDialPeer } from "./peers/dial.ts";
import { listenForPeers, type PeerListener } from "./peers/listener.ts";
import { visitPostgres } from "./postgres/visit.ts";
import { createCancelKeys } from "./sessions/cancel-keys.ts";
import { createCounts } from "./sessions/counts.ts";
import { createSessions } from "./sessions/sessions.ts";
import { createTableReader } from "./table/load.ts";
import { stateOf } from "./table/state.ts";
import { createTable } from "./table/table.ts";

export interface DatabaseProxy extends AsyncDisposable {
  /** Null without a listener for metrics. */
  metricsPort: number | null;
  /**
   * Takes no new connection from now on, and resolves when those that are there have ended; what is left after
   * `drainMs`, or when `signal` aborts, is cut off by disposing. The table is followed meanwhile.
   */
  drain(signal: AbortSignal): Promise<void>;
}

const visits = { postgres: visitPostgres, mariadb: visitMariadb };

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
  const { dir, serverMs } = config;
  const log = deps.log ?? createLog(config.logLevel);
  await mkdir(dir, { recursive: true });
  await using opened = new AsyncDisposableStack();
  const metrics = createMetrics({ process: config.metricsListen !== null });
  const pulse = createPulse(clock.steadyMs);
  const [table, counts, sessions, cancelKeys] = [createTable(), createCounts(), createSessions(), createCancelKeys()];
  const [look, tell] = [createWake(clock), createWake(clock)];
  const onChange = tell.signal;
  const openServer = createOpenServer({ clock, counts, rate, serverMs, onChange });

  const clients = new Set<Socket>();
  let peers: PeerListener | null = null;
  const credentials = createCredentialStore(dir, log, (next) => peers?.use(next));
  const dialPeer = createDialPeer({ clock, credentials, serverMs, heldMs, log });
  const door = createDoor({ clock, table, openServer, dialPeer, heldMs });
  const house: House = {
    ...{ clock, table, door, sessions, counts, cancelKeys, metrics, clientMs, serverMs, onChange },
  };
  const listeners = opened.use(
    createListeners({
      ports: config.ports,
      onClient(engine, bridge, client) {
        const over = new AbortController();
        clients.add(client);
        client.once("close", () => {
          clients.delete(client);
          over.abort();
        });
        const visit: Visit = { house, engine, bridge, client, gone: over.signal };
        visits[engine](visit).catch((err: unknown) => {
          log.error({ err, engine, bridge }, "a connection failed");
          client.destroy();
        });
      },
      metrics,
      log,
    }),
  );
  opened.defer(() => {
    for (const client of clients) client.destroy();
    sessions.endAll();
  });
  table.onChange((index) => {
    metrics.ended.inc(sessions.review(index));
    counts.keepOnly((databaseId) => index.byId.has(databaseId));
    tell.signal();
  });

  let isDraining = false;
  let areListening = false;
  const readTable = createTableReader({ dir, table, metrics, log });
  const turned = pulse.expect("table", turnWithinMs + lookEveryMs);
  const followTable = async (): Promise<void> => {
    await Promise.all([readTable(), credentials.refresh()]);
    if (!isDraining) await listen();
    turned();
  };
  const listen = async (): Promise<void> => {
    const { peerListen } = config;
    const own = credentials.current();
    if (peerListen !== null && peers === null && own !== null) {
      const to = { clock, listen: peerListen, table, sessions, openServer, serverMs, heldMs, metrics, log };
      peers = await listenForPeers(to, own);
    }
    areListening = (await listeners.follow(table.current())) && (peerListen === null || peers !== null);
    if (isDraining) await closeListeners();
  };
  const closeListeners = async (): Promise<void> => {
    await listeners.close();
    peers?.close();
  };
  opened.defer(async () => await peers?.[Symbol.asyncDispose]());

  const operators =
    config.metricsListen === null
      ? null
      : await startOperatorsListener(
          clock,
          { ...config.metricsListen, reusePort: true },
          {
            metrics: metrics.read,
            stuck: pulse.stuck,
            async unready() {
              if (table.current().generation === 0n) return "there is no table yet";
              return areListening ? null : "it cannot listen at every address yet";
            },
          },
          log,
        );
  if (operators !== null) opened.use(operators);
  metrics.beforeReading(() => {
    const here = stateOf(process.pid, table.current(), counts).connections;
    metrics.counted.set(here.reduce((sum, { open }) => sum + open, 0));
  });

  const stop = new AbortController();
  const { signal } = stop;
  await followTable();
  let written = "";
  const writeState = async (): Promise<void> => {
    // What one that has taken over says is what counts.
    if (isDraining) return;
    const text = `${JSON.stringify(stateOf(process.pid, table.current(), counts))}\n`;
    if (text === written) return;
    await writeDurably(join(dir, "state.json"), text, { mode: 0o644 });
    written = text;
  };
  const onError = (what: string) => (err: unknown) => log.error({ err }, what);
  const loops = [
    runLoop(
      { clock, wake: look, periodMs: lookEveryMs, signal, onError: onError("the table cannot be followed") },
      followTable,
    ),
    runLoop(
      {
        clock,
        wake: tell,
        periodMs: stateEveryMs,
        restMs: stateRestMs,
        signal,
        onError: onError("the state cannot be written"),
      },
      writeState,
    ),
  ];
  opened.defer(async () => {
    stop.abort();
    await Promise.all(loops);
  });
  const watcher = watch(dir, (_event, name) => {
    // What this process writes there itself is nothing new.
    if (name === null || !name.startsWith("state.json")) look.signal();
  });
  watcher.on("error", (err) => log.warn({ err }, "the directory is not watched: it is looked at by a period"));
  opened.defer(() => watcher.close());
  opened.use(
    every(clock, lookAgainMs, () => {
      if (!areListening && !isDraining) look.signal();
    }),
  );

  const running = opened.move();
  return {
    metricsPort: operators?.port ?? null,
    async drain(until) {
      isDraining = true;
      log.info({ sessions: sessions.size }, "draining");
      await Promise.all([closeListeners(), operators?.[Symbol.asyncDispose]()]);
      const over = new AbortController();
      await Promise.race([sessions.none(), pause(clock, config.drainMs, AbortSignal.any([until, over.signal]))]);
      over.abort();
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
}
