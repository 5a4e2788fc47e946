import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import type { Log } from "../../log.ts";
import type { Metrics } from "../../metrics/metrics.ts";
import type { AcmeConfig } from "../../settings/settings.ts";
import type { Listener } from "../../stores/db/listen.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Resolver } from "../../stores/dns/resolver.ts";
import type { Secrets } from "../../stores/secrets.ts";
import type { WorkHandler } from "../../stores/work/worker.ts";
import type { FleetView } from "../cluster/facts.ts";
import { areEdgesAnswering } from "./answering.ts";
import { type CertificateFeed, startCertificateFeed } from "./feed.ts";
import { createIssuers } from "./issuers.ts";
import { startCertificateRounds } from "./round.ts";
import { certificateWorker, type DnsWriter } from "./worker.ts";

/** All that one replica does about certificates of sites. */
export interface Certificates extends AsyncDisposable {
  /** For the edges whose streams it has. */
  feed: CertificateFeed;
  work: WorkHandler;
}

export function startCertificates(deps: {
  clock: Clock;
  random: Random;
  db: Db;
  secrets: Secrets;
  listener: Listener;
  resolver: Resolver;
  fleet: Pick<FleetView, "edgeApplied">;
  acme: AcmeConfig;
  edgeHost: string;
  /** Who writes records into the zone of the content domain, and which that is; null: it has no certificate. */
  wildcard: { name: string; dns: DnsWriter } | null;
  metrics?: Pick<Metrics, "certificatesLate"> | undefined;
  log: Log;
}): Certificates {
  const { clock, db, secrets, listener, acme, wildcard, log, fleet, metrics } = deps;
  const feed = startCertificateFeed({ clock, db, secrets, listener, wildcard: wildcard?.name ?? null, log });
  const rounds = startCertificateRounds({ clock, db, wildcard, log, listener, metrics });
  return {
    feed,
    work: certificateWorker({
      ...deps,
      findIssuer: createIssuers({ clock, db, secrets, acme }),
      areEdgesAnswering: areEdgesAnswering(db, fleet.edgeApplied),
    }),
    async [Symbol.asyncDispose]() {
      await rounds[Symbol.asyncDispose]();
      await feed[Symbol.asyncDispose]();
    },
  };
}
