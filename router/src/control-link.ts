import { createClient, type Transport } from "@connectrpc/connect";
import { createTransport, type Identity, type LinkTransport, renewLoop } from "@svc/link";
import { EdgeService } from "@svc/proto/edge";
import type { Log } from "./log.ts";

/** The connection to control under one identity, whose certificate it keeps fresh. */
export interface ControlLink extends AsyncDisposable {
  /** For the next call: with the newest certificate. What is open stays on the connection it has. */
  transport(): Transport;
}

/** @param options.dir where the identity is kept */
export function openControlLink(options: { dir: string; identity: Identity; linkUrl: string; log: Log }): ControlLink {
  const { dir, identity, linkUrl, log } = options;
  const stop = new AbortController();
  const links: LinkTransport[] = [];
  let newest = createTransport(identity, linkUrl);
  links.push(newest);
  const renewing = renewLoop({
    dir,
    identity,
    renew: (csr, signal) => createClient(EdgeService, newest.transport).renewCertificate({ csr }, { signal }),
    onRenewed(renewed) {
      newest = createTransport(renewed, linkUrl);
      links.push(newest);
    },
    signal: stop.signal,
    log,
  });
  return {
    transport: () => newest.transport,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await renewing;
      for (const link of links) link.close();
    },
  };
}
