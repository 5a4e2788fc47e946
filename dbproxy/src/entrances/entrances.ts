import { createServer, type Server, type Socket } from "node:net";
import { createServer as createTlsServer, type TLSSocket } from "node:tls";
import type { Entrances, EntrancesState, EntranceTarget } from "@svc/proto/entrances";
import type { Clock } from "@svc/runtime/clock";
import type { Log } from "../log.ts";
import type { Metrics } from "../metrics/metrics.ts";
import type { Credentials } from "../peers/credentials.ts";
import { edgeOf } from "../peers/peer.ts";
import type { Table } from "../table/table.ts";
import { keepAliveMs, splice } from "../wire/splice.ts";
import { reachApp } from "./reach.ts";

/** The listeners through which edges come to apps of this machine. */
export interface EntranceListeners extends AsyncDisposable {
  /** What is shown, and whom it knows, from the next connection on. */
  use(credentials: Credentials): void;
  /** Opens what is named and closes what is not. False: an address or the certificate is not there yet, so it has to be called again. */
  follow(wanted: Entrances | null): Promise<boolean>;
  /** Which entrances it followed last, and how far it came. */
  state(): EntrancesState;
  /** Takes no new connection; those that are there go on. */
  close(): void;
  /** Connections that are there, those included of whom nobody knows yet who they are. */
  readonly size: number;
  /** Resolves as soon as there is none. */
  none(): Promise<void>;
}

/** Of all entrances at once, and of one, whose app must not take the places of all. */
const visitsMax = { machine: 10_000, entrance: 5_000 };
/** What Caddy speaks to apps. */
const protocol = "http/1.1";

/** @param options.serverMs within which an edge has to say who it is, and an app to take the connection */
export function listenForEdges(options: {
  clock: Clock;
  table: Table;
  serverMs: number;
  metrics: Metrics;
  log: Log;
}): EntranceListeners {
  const { clock, table, serverMs, metrics, log } = options;
  const open = new Map<number, Server>();
  const complained = new Set<number>();
  /** Closed by whoever is there: with the machine's end of a connection its TLS ends, too. */
  const visits = new Set<Socket>();
  /** Whose they are, of those who have said it. */
  const edges = new Map<TLSSocket, string>();
  let waiting: (() => void)[] = [];
  let targets = new Map<number, EntranceTarget>();
  let address = "";
  let clusterId: string | null = null;
  let isClosed = false;
  let followed: EntrancesState = { generation: "0", missing: [] };

  // It listens nowhere itself: every entrance hands its connections over.
  const handshakes = createTlsServer({
    ...{ requestCert: true, rejectUnauthorized: true, minVersion: "TLSv1.3", ALPNProtocols: [protocol] },
    handshakeTimeout: serverMs,
  });
  const refuse = (why: "tls" | "role" | "gone" | "full" | "app", socket: Socket): void => {
    metrics.entrancesRefused.inc({ why });
    socket.destroy();
  };
  handshakes.on("tlsClientError", (_, socket) => refuse("tls", socket));
  handshakes.on("secureConnection", (edge) => {
    edge.on("error", () => {});
    const to = targets.get(edge.localPort ?? 0);
    const edgeId = edgeOf(edge.getPeerCertificate().subjectaltname, clusterId ?? "");
    if (edgeId === null) return void refuse("role", edge);
    if (table.current().gone.has(edgeId)) return void refuse("gone", edge);
    edges.set(edge, edgeId);
    edge.once("close", () => edges.delete(edge));
    if (to === undefined) return void refuse("app", edge);
    void pass(edge, to).catch((err: unknown) => {
      log.error({ err }, "a connection of an edge failed");
      edge.destroy();
    });
  });

  const forget = table.onChange(({ gone }) => {
    for (const [edge, edgeId] of edges) if (gone.has(edgeId)) refuse("gone", edge);
  });

  async function pass(edge: TLSSocket, to: EntranceTarget): Promise<void> {
    const gone = new AbortController();
    edge.once("close", () => gone.abort());
    const app = await reachApp(clock, to, AbortSignal.any([gone.signal, clock.abortAfter(serverMs)]));
    if (app === null) return void refuse("app", edge);
    await splice(edge, app);
  }

  function welcome(socket: Socket, own: Set<Socket>): void {
    socket.on("error", () => {});
    if (visits.size >= visitsMax.machine || own.size >= visitsMax.entrance) return void refuse("full", socket);
    visits.add(socket);
    own.add(socket);
    metrics.entranceVisits.set(visits.size);
    socket.once("close", () => {
      visits.delete(socket);
      own.delete(socket);
      metrics.entranceVisits.set(visits.size);
      if (visits.size > 0) return;
      for (const tell of waiting) tell();
      waiting = [];
    });
    handshakes.emit("connection", socket);
  }

  async function listen(port: number): Promise<boolean> {
    const own = new Set<Socket>();
    const server = createServer(
      { allowHalfOpen: true, noDelay: true, keepAlive: true, keepAliveInitialDelay: keepAliveMs },
      (socket) => welcome(socket, own),
    );
    try {
      await new Promise<void>((resolve, reject) => {
        server.once("error", reject);
        // A process that is to take over listens at the same address while this one still does.
        server.listen({ host: address, port, reusePort: true }, resolve);
      });
    } catch (err) {
      if (!complained.has(port)) log.warn({ err, port }, "cannot listen for edges yet");
      complained.add(port);
      return false;
    }
    complained.delete(port);
    server.on("error", (err) => log.error({ err, port }, "an entrance failed"));
    open.set(port, server);
    return true;
  }

  const close = (port: number): void => {
    open.get(port)?.close();
    open.delete(port);
  };
  const closeAll = (): void => {
    for (const port of [...open.keys()]) close(port);
  };

  return {
    use({ clusterId: next, entrance }) {
      if (entrance === null) return;
      clusterId = next;
      handshakes.setSecureContext({ ...entrance, minVersion: "TLSv1.3" });
    },
    async follow(wanted) {
      if (isClosed || wanted === null) return true;
      if (wanted.address !== address) closeAll();
      address = wanted.address;
      targets = new Map(wanted.entrances.map(({ port, to }) => [port, to]));
      // Without one nobody could be let in.
      const fresh = clusterId === null ? [] : [...targets.keys()].filter((port) => !open.has(port));
      await Promise.all(fresh.map(listen));
      // What takes the place of another is there before that one goes.
      for (const port of [...open.keys()]) if (!targets.has(port)) close(port);
      if (isClosed) closeAll();
      for (const port of complained) if (!targets.has(port)) complained.delete(port);
      const missing = isClosed ? [] : [...targets.keys()].filter((port) => !open.has(port));
      metrics.entrances.set(open.size);
      metrics.entrancesMissing.set(missing.length);
      followed = { generation: wanted.generation, missing };
      return missing.length === 0;
    },
    state: () => followed,
    close() {
      isClosed = true;
      closeAll();
    },
    get size() {
      return visits.size;
    },
    none: () => (visits.size === 0 ? Promise.resolve() : new Promise((resolve) => waiting.push(resolve))),
    async [Symbol.asyncDispose]() {
      isClosed = true;
      closeAll();
      forget();
      for (const socket of visits) socket.destroy();
    },
  };
}
