import { type ConnectionOptions, connect } from "node:tls";
import { type DatabaseProxyDial, databaseProxyAnswer, databaseProxyProtocol } from "@svc/proto/database-proxy";
import type { Clock } from "@svc/runtime/clock";
import { createTokenBucket } from "@svc/runtime/token-bucket";
import { connected } from "../doors/connected.ts";
import type { Opened } from "../doors/servers.ts";
import type { Log } from "../log.ts";
import type { CredentialStore } from "./credentials.ts";
import { writeFrame } from "./frame.ts";
import { nodeOf } from "./peer.ts";
import { receiveFrame } from "./receive.ts";

export interface PeerAddress {
  nodeId: string;
  host: string;
  port: number;
}

export type DialPeer = (at: PeerAddress, dial: DatabaseProxyDial, signal: AbortSignal) => Promise<Opened>;

/**
 * Opens a connection to a server of another machine, through the proxy there: it must show a certificate of that very
 * node before it is told anything. It answers in `serverMs`, and when it has said that it waits, in `heldMs` besides.
 */
export function createDialPeer(options: {
  clock: Clock;
  credentials: CredentialStore;
  serverMs: number;
  heldMs: number;
  log: Log;
}): DialPeer {
  const { clock, credentials, serverMs, heldMs, log } = options;
  const complaints = createTokenBucket({ ratePerSecond: 0.2, burst: 5 });
  return async ({ nodeId, host, port }, dial, signal) => {
    const own = credentials.current();
    if (own === null) return { refused: "away" };
    const soon = AbortSignal.any([signal, clock.abortAfter(serverMs)]);
    const options: ConnectionOptions & { allowHalfOpen: boolean } = {
      ...{ host, port, secureContext: own.context, ALPNProtocols: [databaseProxyProtocol], minVersion: "TLSv1.3" },
      // The certificate names a node and no host. Whether it is this cluster's authority that says so is checked before.
      checkServerIdentity: (_host, certificate) =>
        nodeOf(certificate.subjectaltname, own.clusterId) === nodeId ? undefined : new Error("it is another node"),
      allowHalfOpen: true,
    };
    const stream = connect(options);
    stream.once("error", (err: unknown) => {
      if (complaints.take(clock.steadyMs())) log.warn({ err, nodeId }, "another machine's proxy cannot be reached");
    });
    const away = (): Opened => {
      stream.destroy();
      return { refused: "away" };
    };
    if (!(await connected(stream, "secureConnect", soon))) return away();
    if (stream.alpnProtocol !== databaseProxyProtocol) return away();
    stream.setNoDelay(true);
    stream.write(writeFrame(dial));
    let reply = await receiveFrame(stream, databaseProxyAnswer, soon);
    if (reply?.answer === "wait") {
      const later = AbortSignal.any([signal, clock.abortAfter(heldMs + serverMs)]);
      reply = await receiveFrame(stream, databaseProxyAnswer, later);
    }
    if (reply?.answer === "ok") return { stream };
    stream.destroy();
    return { refused: reply?.answer === "refused" ? reply.why : "away" };
  };
}
