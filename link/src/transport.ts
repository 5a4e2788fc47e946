import { Code, ConnectError, type Transport } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import type { Identity } from "./identity.ts";

/** DNS name in every server certificate of control, whatever address it is reached at. */
export const CONTROL_NAME = "control.svc.internal";

/** Messages above this are refused on both ends; bulk data goes through the registry. */
const READ_MAX_BYTES = 4 * 1024 * 1024;

/** One HTTP/2 connection to control that reopens itself. */
export type LinkTransport = {
  transport: Transport;
  /** Ends the connection and every call on it. */
  close(): void;
};

/**
 * The connection of an enrolled daemon: gRPC over mutual TLS. Pings find a peer that is gone without a
 * word within 15 s. The certificate is read once: after a renewal make a new transport for new calls.
 */
export function createTransport(identity: Identity, linkUrl: string): LinkTransport {
  return openTransport(linkUrl, { ca: identity.caPem, cert: identity.certificatePem, key: identity.privateKeyPem });
}

/** The connection of a daemon that has no certificate yet. */
export function createEnrollTransport(caPem: string, enrollUrl: string): LinkTransport {
  return openTransport(enrollUrl, { ca: caPem });
}

function openTransport(url: string, credentials: { ca: string; cert?: string; key?: string }): LinkTransport {
  const sessionManager = new Http2SessionManager(
    url,
    { pingIntervalMs: 10_000, pingTimeoutMs: 5_000 },
    { ...credentials, servername: CONTROL_NAME, minVersion: "TLSv1.3" },
  );
  const transport = createGrpcTransport({
    baseUrl: url,
    sessionManager,
    readMaxBytes: READ_MAX_BYTES,
    // Messages are small and the link is local: compression would cost memory and time on both ends.
    acceptCompression: [],
  });
  return {
    transport,
    close: () => sessionManager.abort(new ConnectError("the transport was closed", Code.Unavailable)),
  };
}
