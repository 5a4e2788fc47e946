import { Server, ServerCredentials } from "@grpc/grpc-js";
import { hostAndPort } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import type { KeyAndCertificate } from "../ca/certificates.ts";
import type { LinkTimings } from "../sessions/timings.ts";

/** TLS settings of a listening port whose certificate can be exchanged while it listens. */
export class RotatingCredentials extends ServerCredentials {
  /**
   * `clients`: only peers with a certificate of `trusted` (PEM, one or several authorities) are let in. The server's
   * own certificate has its authority in its chain: a daemon that joins takes it from there and compares it with its token.
   */
  constructor(trusted: string, own: KeyAndCertificate, { clients }: { clients: boolean }) {
    super(
      { requestCert: clients, rejectUnauthorized: clients, minVersion: "TLSv1.3" },
      { ca: trusted, cert: own.certificate, key: own.privateKey },
    );
  }

  /** New connections see the new certificate and are judged by the new authorities; existing ones go on. */
  rotate(trusted: string, own: KeyAndCertificate): void {
    this.updateSecureContextOptions({ ca: trusted, cert: own.certificate, key: own.privateKey });
  }

  override _equals(other: ServerCredentials): boolean {
    return this === other;
  }
}

const maxMessageBytes = 4 * 1024 * 1024;
/** Streams one connection may have: a session, and the calls beside it. */
const maxStreamsPerConnection = 100;

export const createServer = ({ keepaliveMs, keepaliveTimeoutMs }: LinkTimings): Server =>
  new Server({
    "grpc.max_receive_message_length": maxMessageBytes,
    "grpc.max_concurrent_streams": maxStreamsPerConnection,
    "grpc.keepalive_time_ms": keepaliveMs,
    "grpc.keepalive_timeout_ms": keepaliveTimeoutMs,
    "grpc.enable_channelz": 0,
  });

/** Binds and returns the port. */
export function listen(
  server: Server,
  { host, port }: { host: string; port: number },
  credentials: ServerCredentials,
): Promise<number> {
  const address = hostAndPort(host, port);
  return new Promise((resolve, reject) => {
    server.bindAsync(address, credentials, (error, bound) => {
      if (error) reject(new Error(`cannot listen on ${address}`, { cause: error }));
      else resolve(bound);
    });
  });
}

/** Ends a server whose streams have been told to end: first gently, and what is left after `graceMs` by force. */
export function stopServer(clock: Clock, server: Server, graceMs: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = clock.after(graceMs, () => {
      server.forceShutdown();
      resolve();
    });
    server.tryShutdown(() => {
      timer[Symbol.dispose]();
      resolve();
    });
  });
}
