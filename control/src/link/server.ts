import { Server, ServerCredentials } from "@grpc/grpc-js";
import type { KeyAndCertificate } from "../ca/certificates.ts";
import type { LinkTimings } from "./timings.ts";

/** TLS settings of a listening port whose certificate can be exchanged while it listens. */
export class RotatingCredentials extends ServerCredentials {
  readonly #ca: string;

  /** `clients`: only peers with a certificate of the authority are let in. */
  constructor(ca: string, own: KeyAndCertificate, { clients }: { clients: boolean }) {
    super(
      { requestCert: clients, rejectUnauthorized: clients, minVersion: "TLSv1.3" },
      { ca, cert: chain(own, ca), key: own.privateKey },
    );
    this.#ca = ca;
  }

  /** New connections see the new certificate; existing ones go on. */
  rotate(own: KeyAndCertificate): void {
    this.updateSecureContextOptions({ ca: this.#ca, cert: chain(own, this.#ca), key: own.privateKey });
  }

  override _equals(other: ServerCredentials): boolean {
    return this === other;
  }
}

/** Leaf, then authority: a daemon that joins takes the authority out of the chain and compares it with its token. */
const chain = (own: KeyAndCertificate, ca: string) => `${own.certificate.trim()}\n${ca.trim()}\n`;

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
  const address = `${host.includes(":") ? `[${host}]` : host}:${port}`;
  return new Promise((resolve, reject) => {
    server.bindAsync(address, credentials, (error, bound) => {
      if (error) reject(new Error(`cannot listen on ${address}`, { cause: error }));
      else resolve(bound);
    });
  });
}

/** Ends a server whose streams have been told to end: first gently, and what is left after `graceMs` by force. */
export function stopServer(server: Server, graceMs: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => {
      server.forceShutdown();
      resolve();
    }, graceMs);
    server.tryShutdown(() => {
      clearTimeout(timer);
      resolve();
    });
  });
}
