import { X509Certificate } from "node:crypto";
import type { Clock } from "@svc/runtime/clock";
import type { Wake } from "@svc/runtime/wake";
import type { Identity } from "@svc/uplink";

/** So often control is asked for what edges know this node by: one of an earlier version, or a disagreement, gives none. */
const askEveryMs = 60 * 60 * 1000;

/** Sees to it that the node has a certificate for its address: a new node, and one that moved, have none before a renewal. */
export interface EntranceCertificate {
  /** There is another identity from now on. */
  give(identity: Pick<Identity, "entrancePem">): void;
  /** Asks for a renewal before its time, if one is needed: control knows the address by now. */
  need(): void;
}

export function createEntranceCertificate(options: {
  clock: Clock;
  address: string;
  first: Pick<Identity, "entrancePem">;
  renewal: Pick<Wake, "signal">;
}): EntranceCertificate {
  const { clock, address, renewal } = options;
  let current = options.first;
  let askedAtMs = Number.NEGATIVE_INFINITY;
  return {
    give(identity) {
      current = identity;
    },
    need() {
      if (isFor(current.entrancePem, address) || clock.bootMs() < askedAtMs + askEveryMs) return;
      askedAtMs = clock.bootMs();
      renewal.signal();
    },
  };
}

/** Whether the certificate names the address; empty names nothing. It is as long valid as the identity that it came with. */
const isFor = (entrancePem: string, address: string): boolean =>
  entrancePem !== "" && new X509Certificate(entrancePem).checkIP(address) !== undefined;
