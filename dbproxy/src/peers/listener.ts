import { createServer, type TLSSocket } from "node:tls";
import { type DatabaseProxyAnswer, databaseProxyDial, databaseProxyProtocol } from "@svc/proto/database-proxy";
import type { Clock } from "@svc/runtime/clock";
import type { OpenServer } from "../doors/servers.ts";
import type { Log } from "../log.ts";
import type { Metrics } from "../metrics/metrics.ts";
import type { Sessions } from "../sessions/sessions.ts";
import { admitDial } from "../table/admission.ts";
import { settle, type Table } from "../table/table.ts";
import { dismiss, splice } from "../wire/splice.ts";
import type { Credentials } from "./credentials.ts";
import { writeFrame } from "./frame.ts";
import { nodeOf } from "./peer.ts";
import { receiveFrame } from "./receive.ts";

export interface PeerListenerOptions {
  clock: Clock;
  listen: { host: string; port: number };
  table: Table;
  sessions: Sessions;
  openServer: OpenServer;
  serverMs: number;
  heldMs: number;
  metrics: Metrics;
  log: Log;
}

export interface PeerListener extends AsyncDisposable {
  port: number;
  /** What is shown, and whom it knows, from the next connection on. */
  use(credentials: Credentials): void;
  /** Takes no new connection; those that are there go on. */
  close(): void;
}

const connectionsMax = 10_000;

/** Listens for the proxies of other machines, whose apps or copies want to reach servers here. Only nodes of this cluster that are not gone get an answer. */
export async function listenForPeers(options: PeerListenerOptions, first: Credentials): Promise<PeerListener> {
  const { listen, metrics, log } = options;
  let credentials = first;
  const sockets = new Set<TLSSocket>();
  const server = createServer({
    ...first.pem,
    ...{ requestCert: true, rejectUnauthorized: true, minVersion: "TLSv1.3", ALPNProtocols: [databaseProxyProtocol] },
    ...{ allowHalfOpen: true, noDelay: true, handshakeTimeout: options.serverMs },
  });
  server.maxConnections = connectionsMax;
  server.on("secureConnection", (socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.once("close", () => sockets.delete(socket));
    const nodeId = nodeOf(socket.getPeerCertificate().subjectaltname, credentials.clusterId);
    if (nodeId === null || socket.alpnProtocol !== databaseProxyProtocol) {
      metrics.peersRefused.inc();
      return void socket.destroy();
    }
    void answer(options, socket, nodeId).catch((err: unknown) => {
      log.error({ err, nodeId }, "a connection of another machine failed");
      socket.destroy();
    });
  });
  server.on("tlsClientError", () => metrics.peersRefused.inc());
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen({ ...listen, reusePort: true }, resolve);
  });
  server.on("error", (err) => log.error({ err }, "the listener for other proxies failed"));
  const bound = server.address();
  return {
    port: typeof bound === "object" && bound !== null ? bound.port : listen.port,
    use(next) {
      credentials = next;
      server.setSecureContext({ ...next.pem, minVersion: "TLSv1.3" });
    },
    close: () => void server.close(),
    async [Symbol.asyncDispose]() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

async function answer(options: PeerListenerOptions, socket: TLSSocket, nodeId: string): Promise<void> {
  const { clock, table, sessions, openServer, serverMs, heldMs, metrics } = options;
  const over = new AbortController();
  socket.once("close", () => over.abort());
  const soon = AbortSignal.any([over.signal, clock.abortAfter(serverMs)]);
  const dial = await receiveFrame(socket, databaseProxyDial, soon);
  if (dial === null) return void socket.destroy();
  const { databaseId, epoch } = dial;
  const say = (reply: DatabaseProxyAnswer): Buffer => writeFrame(reply);
  const verdict = await settle(clock, table, {
    decide: ({ byId, gone }) => {
      if (gone.has(nodeId)) return "gone";
      const entry = byId.get(databaseId);
      const admission = admitDial(entry, dial, nodeId);
      return admission === "pass" && entry !== undefined ? entry : admission;
    },
    onWait: () => void socket.write(say({ answer: "wait" })),
    ...{ heldMs, signal: over.signal },
  });
  const refuse = (why: Extract<DatabaseProxyAnswer, { answer: "refused" }>["why"]): void =>
    dismiss(socket, say({ answer: "refused", why }), clock.abortAfter(serverMs));
  if (verdict === "gone") {
    metrics.peersRefused.inc();
    return void socket.destroy();
  }
  if (typeof verdict === "string") return refuse(verdict === "pass" ? "away" : verdict);
  if (verdict.at === null || !("socket" in verdict.at)) return refuse("away");
  const forget = sessions.add({
    ...{ databaseId, epoch, of: dial.purpose === "copy" ? { copyId: dial.copyId, nodeId } : { nodeId } },
    end: () => socket.destroy(),
  });
  try {
    const opened = await openServer(verdict, verdict.at.socket, dial, over.signal);
    if ("refused" in opened) return refuse(opened.refused);
    socket.write(say({ answer: "ok" }));
    await splice(socket, opened.stream);
  } finally {
    forget();
  }
}
