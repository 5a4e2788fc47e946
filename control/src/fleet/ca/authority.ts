import { randomBytes } from "node:crypto";
import { type DaemonIdentity, identityUri } from "@svc/proto/daemon-identity";
import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import type { Db } from "../../stores/db/pool.ts";
import type { Secrets } from "../../stores/secrets.ts";
import {
  certificateSha256,
  createAuthority,
  createClientCertificate,
  createEntranceCertificate,
  createServerCertificate,
  type KeyAndCertificate,
  type RequestedKey,
} from "./certificates.ts";
import { type ClusterRow, findCluster, insertCluster } from "./store.ts";
import { trustOf, trustUnit } from "./trust.ts";
import { daemonValidityMs, validity } from "./validity.ts";

/** What is fixed about a cluster from its first start, and which authority it has. */
export interface ClusterIdentity {
  clusterId: string;
  /** Raised by hand after etcd was restored from a backup. */
  epoch: number;
  /** sha256 of the authority's DER, hex; part of every bootstrap token. */
  readonly caSha256: string;
}

/** Signs the certificates of one cluster, with the authority of one moment. */
export interface Issuer extends ClusterIdentity {
  /** PEM of the authority that signs. */
  readonly caCertificate: string;
  /** PEM of everything that daemons are to trust, the one that signs first. */
  readonly trusted: string;
  /** Names `trusted`; see trust.ts. */
  readonly trust: string;
  /** sha256 of the authority that is being replaced; null unless one is. */
  readonly previousSha256: string | null;
  /**
   * A fresh key and certificate for the ports that daemons dial, with the chain that daemons of either authority
   * accept; valid for a year.
   */
  issueServer(now: Date): Promise<KeyAndCertificate>;
  /**
   * A certificate for the identity and key, with its chain; valid for 30 days. Nothing of the request but its key goes
   * in. `pinned`: its holder trusts only the authority that is being replaced, and is to renew soon.
   */
  issueDaemon(
    identity: Omit<DaemonIdentity, "clusterId">,
    key: RequestedKey,
    now: Date,
    pinned?: "previous",
  ): Promise<{ certificate: string; expiresAt: Date }>;
  /** What edges know the entrances of a node at `address` by, with its chain, for the key of its identity; as long valid as that. */
  issueEntrance(nodeId: string, key: RequestedKey, address: string, now: Date): Promise<string>;
}

/** The authority of a running cluster: every member tells what was read last. */
export interface Authority extends Issuer {
  /** Reads it again; true when it is another one, or the one before was dropped. */
  refresh(): Promise<boolean>;
  /**
   * The authority as it is in this transaction, and stays until its end. What is issued for good is issued by this
   * one: a certificate of an authority that was dropped a moment ago would be refused everywhere.
   */
  lock(tx: Db): Promise<Issuer>;
}

/** The name that daemons expect in the server's certificate, whatever address they dial. */
const serverName = "control.svc.internal";

const dayMs = 86_400_000;
const caValidityMs = 20 * 365 * dayMs;
const serverValidityMs = 365 * dayMs;

const newSerial = () => randomBytes(16);
/** Where the authority's sealed key lives; see `Secrets`. */
export const caKeyAad = "cluster/ca_key";

/** A new authority for the cluster, not yet in force. */
export const newAuthority = (clusterId: string, now: Date): Promise<KeyAndCertificate> =>
  createAuthority(clusterId, { ...validity(now, caValidityMs), serial: newSerial() });

/** The authority's key and certificate, of the row that holds them. */
export const openIssuer = (row: ClusterRow, secrets: Secrets): KeyAndCertificate => ({
  certificate: row.caCertificate,
  privateKey: secrets.open(row.caKey, caKeyAad).toString("utf8"),
});

/** Where a new cluster has its name and its first day from. */
export interface Origin {
  clock: Clock;
  random: Random;
}

/**
 * The cluster's authority; made on the very first start. Safe when several control
 * replicas start at once on an empty database: one insert wins and all read it back.
 */
export async function openAuthority(db: Db, secrets: Secrets, origin: Origin): Promise<Authority> {
  const first = (await findCluster(db)) ?? (await createCluster(db, secrets, origin));
  let loaded = { row: first, issuer: createIssuer(first, secrets) };
  /** The issuer of a row. Opening a key costs, so the loaded one serves as long as it is the same authority. */
  const issuerOf = (row: ClusterRow): Issuer =>
    isSameAuthority(row, loaded.row) ? loaded.issuer : createIssuer(row, secrets);
  return {
    clusterId: first.id,
    epoch: first.epoch,
    get caSha256() {
      return loaded.issuer.caSha256;
    },
    get caCertificate() {
      return loaded.issuer.caCertificate;
    },
    get trusted() {
      return loaded.issuer.trusted;
    },
    get trust() {
      return loaded.issuer.trust;
    },
    get previousSha256() {
      return loaded.issuer.previousSha256;
    },
    issueServer: (at) => loaded.issuer.issueServer(at),
    issueDaemon: (...request) => loaded.issuer.issueDaemon(...request),
    issueEntrance: (...request) => loaded.issuer.issueEntrance(...request),
    async refresh() {
      const row = await getCluster(db);
      if (isSameAuthority(row, loaded.row)) return false;
      loaded = { row, issuer: issuerOf(row) };
      return true;
    },
    lock: async (tx) => issuerOf(await getCluster(tx, "share")),
  };
}

const isSameAuthority = (a: ClusterRow, b: ClusterRow): boolean =>
  a.caCertificate === b.caCertificate && a.replacing?.previous === b.replacing?.previous;

async function getCluster(db: Db, lock: "share" | null = null): Promise<ClusterRow> {
  const row = await findCluster(db, lock);
  if (row === null) throw new Error("the cluster's row has vanished");
  return row;
}

function createIssuer(row: ClusterRow, secrets: Secrets): Issuer {
  const signer = openIssuer(row, secrets);
  const { caCertificate, replacing } = row;
  const authorities = replacing === null ? [caCertificate] : [caCertificate, replacing.previous];
  const trust = trustOf(authorities);
  /** With it, whoever has not read the new authority yet knows the holder. */
  const withCross = (certificate: string): string =>
    concatenate(certificate, ...(replacing === null ? [] : [replacing.cross]));
  return {
    clusterId: row.id,
    epoch: row.epoch,
    caSha256: certificateSha256(caCertificate),
    caCertificate,
    trusted: concatenate(...authorities),
    trust,
    previousSha256: replacing === null ? null : certificateSha256(replacing.previous),
    async issueServer(at) {
      const { certificate, privateKey } = await createServerCertificate(signer, {
        ...validity(at, serverValidityMs),
        serial: newSerial(),
        hosts: [serverName, "localhost"],
      });
      // The cross certificate comes before its own authority, or nobody who knows only the older one would look for it.
      // Both authorities are in it for daemons that join: each compares them with its token.
      const chain = replacing === null ? [caCertificate] : [replacing.cross, replacing.previous, caCertificate];
      return { certificate: concatenate(certificate, ...chain), privateKey };
    },
    async issueDaemon(identity, key, at, pinned) {
      const times = validity(at, daemonValidityMs);
      const told = pinned === "previous" && replacing !== null ? trustOf([replacing.previous]) : trust;
      const certificate = await createClientCertificate(signer, key, {
        ...times,
        serial: newSerial(),
        uri: identityUri({ ...identity, clusterId: row.id }),
        alsoServes: identity.role === "node",
        subject: `CN=${identity.role} ${identity.id},${trustUnit(told)}`,
      });
      return { certificate: withCross(certificate), expiresAt: times.notAfter };
    },
    async issueEntrance(nodeId, key, address, at) {
      const about = { ...validity(at, daemonValidityMs), serial: newSerial(), subject: `CN=node ${nodeId}`, address };
      return withCross(await createEntranceCertificate(signer, key, about));
    },
  };
}

const concatenate = (...pems: string[]): string => pems.map((pem) => `${pem.trim()}\n`).join("");

async function createCluster(db: Db, secrets: Secrets, { clock, random }: Origin): Promise<ClusterRow> {
  const now = clock.now();
  const id = random.uuid();
  const made = await newAuthority(id, now);
  await insertCluster(db, {
    id,
    caCertificate: made.certificate,
    caKey: secrets.seal(Buffer.from(made.privateKey), caKeyAad),
    createdAt: now,
  });
  return getCluster(db);
}
