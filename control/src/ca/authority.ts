import { randomBytes, randomUUID } from "node:crypto";
import type { Db } from "../db/pool.ts";
import type { Secrets } from "../secrets.ts";
import {
  certificateSha256,
  createAuthority,
  createClientCertificate,
  createServerCertificate,
  type KeyAndCertificate,
  type RequestedKey,
} from "./certificates.ts";
import { type DaemonIdentity, identityUri } from "./identity.ts";
import { findCluster, insertCluster } from "./store.ts";

/** What is fixed about a cluster from its first start. */
export interface ClusterIdentity {
  clusterId: string;
  /** Raised by hand after etcd was restored from a backup. */
  epoch: number;
  /** sha256 of the authority's DER, hex; part of every bootstrap token. */
  caSha256: string;
}

/** Signs the certificates of one cluster. */
export interface Authority extends ClusterIdentity {
  /** PEM. */
  caCertificate: string;
  /** A fresh key and certificate for the ports that daemons dial; valid for a year. */
  issueServer(now: Date): Promise<KeyAndCertificate>;
  /** A certificate for the identity and key; valid for 30 days. Nothing of the request but its key goes in. */
  issueDaemon(
    identity: Omit<DaemonIdentity, "clusterId">,
    key: RequestedKey,
    now: Date,
  ): Promise<{ certificate: string; expiresAt: Date }>;
}

/** The name that daemons expect in the server's certificate, whatever address they dial. */
const serverName = "control.svc.internal";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const caValidityMs = 20 * 365 * dayMs;
const serverValidityMs = 365 * dayMs;
const daemonValidityMs = 30 * dayMs;

/** Backdated, so that a daemon whose clock is behind does not refuse a certificate as not yet valid. */
const validity = (now: Date, lengthMs: number) => ({
  notBefore: new Date(now.getTime() - hourMs),
  notAfter: new Date(now.getTime() + lengthMs),
});
const newSerial = () => randomBytes(16);
/** Where the authority's sealed key lives; see `Secrets`. */
export const caKeyAad = "cluster/ca_key";

/**
 * The cluster's authority; made on the very first start. Safe when several control
 * replicas start at once on an empty database: one insert wins and all read it back.
 */
export async function openAuthority(db: Db, secrets: Secrets, now: Date): Promise<Authority> {
  const row = (await findCluster(db)) ?? (await createCluster(db, secrets, now));
  const issuer = { certificate: row.caCertificate, privateKey: secrets.open(row.caKey, caKeyAad).toString("utf8") };
  return {
    clusterId: row.id,
    epoch: row.epoch,
    caSha256: certificateSha256(row.caCertificate),
    caCertificate: row.caCertificate,
    issueServer: (at) =>
      createServerCertificate(issuer, {
        ...validity(at, serverValidityMs),
        serial: newSerial(),
        hosts: [serverName, "localhost"],
      }),
    async issueDaemon(identity, key, at) {
      const times = validity(at, daemonValidityMs);
      const certificate = await createClientCertificate(issuer, key, {
        ...times,
        serial: newSerial(),
        uri: identityUri({ ...identity, clusterId: row.id }),
        subject: `CN=${identity.role} ${identity.id}`,
      });
      return { certificate, expiresAt: times.notAfter };
    },
  };
}

async function createCluster(db: Db, secrets: Secrets, now: Date) {
  const id = randomUUID();
  const made = await createAuthority(id, { ...validity(now, caValidityMs), serial: newSerial() });
  await insertCluster(db, {
    id,
    caCertificate: made.certificate,
    caKey: secrets.seal(Buffer.from(made.privateKey), caKeyAad),
    createdAt: now,
  });
  const row = await findCluster(db);
  if (row === null) throw new Error("the cluster row vanished right after it was written");
  return row;
}
