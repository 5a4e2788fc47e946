import { type BlockList, createServer, type Server, type Socket } from "node:net";
import { networkInterfaces } from "node:os";
import { type DatabaseEngine, databaseEngines } from "@svc/proto/database";
import type { Log } from "../log.ts";
import type { Metrics } from "../metrics/metrics.ts";
import type { TableIndex } from "../table/lookup.ts";
import { neighboursOf } from "../table/neighbours.ts";
import { keepAliveMs } from "../wire/splice.ts";

/** The listeners at the bridges' addresses. */
export interface BridgeListeners {
  /** Opens what the table names and closes what it does not. False: an address is not there yet, so it has to be called again. */
  follow(index: TableIndex): Promise<boolean>;
  /** Closes all of them; connections that are there go on. */
  close(): Promise<void>;
}

/** Of one bridge and engine at once. Beyond that they are closed without a word: its own containers have taken all the places. */
const connectionsMax = 1_000;

export function listenAtBridges(options: {
  ports: Record<DatabaseEngine, number>;
  onClient(engine: DatabaseEngine, bridge: string, client: Socket): void;
  metrics: Metrics;
  log: Log;
}): BridgeListeners {
  const { ports, onClient, metrics, log } = options;
  const open = { postgres: new Map<string, Server>(), mariadb: new Map<string, Server>() };
  const complained = new Set<string>();

  async function listen(engine: DatabaseEngine, bridge: string): Promise<boolean> {
    let known: BlockList | null = null;
    /** The system tells of a bridge's network only while a container is plugged in: so it is asked when one comes. */
    const isNeighbour = (address: string): boolean => {
      const neighbours = known ?? neighboursOf(networksOfMachine(), bridge);
      if (neighbours.rules.length > 0) known = neighbours;
      return neighbours.check(address);
    };
    const server = createServer(
      { allowHalfOpen: true, noDelay: true, keepAlive: true, keepAliveInitialDelay: keepAliveMs },
      (client) => {
        client.on("error", () => {});
        if (isNeighbour(client.remoteAddress ?? "")) onClient(engine, bridge, client);
        else client.destroy();
      },
    );
    server.maxConnections = connectionsMax;
    try {
      await new Promise<void>((resolve, reject) => {
        server.once("error", reject);
        // A process that is to take over listens at the same address while this one still does.
        server.listen({ host: bridge, port: ports[engine], reusePort: true }, resolve);
      });
    } catch (err) {
      // A bridge comes with its first container, and the table may be ahead of it.
      if (!complained.has(bridge)) log.warn({ err, engine, bridge }, "cannot listen at a bridge yet");
      complained.add(bridge);
      return false;
    }
    complained.delete(bridge);
    server.on("error", (err) => log.error({ err, engine, bridge }, "a listener failed"));
    open[engine].set(bridge, server);
    return true;
  }

  const close = (engine: DatabaseEngine, bridge: string): void => {
    open[engine].get(bridge)?.close();
    open[engine].delete(bridge);
  };

  async function follow(index: TableIndex): Promise<boolean> {
    let missing = 0;
    for (const engine of databaseEngines) {
      const named = index.byBridge[engine];
      for (const bridge of open[engine].keys()) if (!named.has(bridge)) close(engine, bridge);
      const fresh = [...named.keys()].filter((bridge) => !open[engine].has(bridge));
      const there = await Promise.all(fresh.map((bridge) => listen(engine, bridge)));
      const away = there.filter((isThere) => !isThere).length;
      metrics.doors.set({ engine }, open[engine].size);
      metrics.doorsMissing.set({ engine }, away);
      missing += away;
    }
    return missing === 0;
  }

  async function closeAll(): Promise<void> {
    for (const engine of databaseEngines) for (const bridge of open[engine].keys()) close(engine, bridge);
  }
  return { follow, close: closeAll };
}

/** Of version 4, as bridges are. */
const networksOfMachine = (): string[] =>
  Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .flatMap(({ family, cidr }) => (family === "IPv4" && cidr !== null ? [cidr] : []));
