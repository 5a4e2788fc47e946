import { X509Certificate } from "node:crypto";
import { createClient, type Transport } from "@connectrpc/connect";
import { EdgeService } from "@svc/proto/edge";
import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import { createWake, type Wake } from "@svc/runtime/wake";
import { createEndpoints, type createTransport, type Endpoints, type Identity, renewLoop } from "@svc/uplink";
import type { Log } from "./log.ts";

/** The connection to control under one identity, whose certificate it keeps fresh. */
export interface ControlLink extends AsyncDisposable {
  /** Where control is to be found. */
  endpoints: Endpoints;
  /** When the certificate begins that it was opened with: at least so late it is. */
  since: Date;
  /** For the next call: with the newest certificate. What is open with an older one ends when that is renewed. */
  transport(): Transport;
  /** Asks for a renewal before its time. */
  renewal: Pick<Wake, "signal">;
}

/** @param options.dir where the identity is kept */
export function openControlLink(options: {
  clock: Clock;
  random: Random;
  dir: string;
  identity: Identity;
  linkUrls: readonly string[];
  /** Called with the identity, and with each one that takes its place. */
  onIdentity(identity: Identity): void;
  connect: typeof createTransport;
  log: Log;
}): ControlLink {
  const { clock, random, dir, identity, linkUrls, onIdentity, connect, log } = options;
  onIdentity(identity);
  const endpoints = createEndpoints(linkUrls, random);
  const stop = new AbortController();
  const renewal = createWake(clock);
  let newest = connect(clock, identity, endpoints);
  const renewing = renewLoop({
    clock,
    random,
    dir,
    identity,
    renew: (csr, signal) => createClient(EdgeService, newest.transport).renewCertificate({ csr }, { signal }),
    wanted: renewal,
    onRenewed(renewed) {
      const former = newest;
      newest = connect(clock, renewed, endpoints);
      // Control goes by the certificate that a session was opened with, so another one is opened.
      former.close();
      onIdentity(renewed);
    },
    signal: stop.signal,
    log,
  });
  return {
    endpoints,
    since: new X509Certificate(identity.certificatePem).validFromDate,
    transport: () => newest.transport,
    renewal,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await renewing;
      newest.close();
    },
  };
}
