import { X509Certificate } from "node:crypto";
import { type DaemonIdentity, type DaemonRole, identityOfAltName } from "@svc/proto/daemon-identity";
import { trustOfSubject } from "../ca/trust.ts";
import { LinkError } from "./errors.ts";
import { identityProblem, type NodeIdentityRow } from "./identity.ts";
import type { Leaf } from "./leaf-check.ts";
import type { SessionRows } from "./rows.ts";

/** The part of a grpc-js call that tells who made it. */
export interface AuthenticatedCall {
  getAuthContext(): { sslPeerCertificate?: { raw?: Buffer } };
}

/** The address at the other end of a call, which grpc-js names as host:port; "" when it is not known. */
export function peerAddress(call: { getPeer(): string }): string {
  const peer = call.getPeer();
  const host = peer.slice(0, Math.max(peer.lastIndexOf(":"), 0)).replace(/^\[|\]$/g, "");
  // How an IPv4 address looks to a server that listens for both.
  return host.replace(/^::ffff:(?=[\d.]+$)/i, "");
}

/** A daemon, by the certificate that it presents. */
export interface Peer extends DaemonIdentity {
  certificate: {
    /** Afterwards its holder is nobody: what was opened with it ends then. */
    endsAt: Date;
    /** Which authorities its holder trusts; null: it was issued before that was told. See ca/trust.ts. */
    trust: string | null;
    leaf: Leaf;
  };
}

/** What is counted against one identity: a former incarnation of a daemon is another one than the present. */
export const nameOfPeer = ({ role, id, incarnation }: DaemonIdentity): string => `${role} ${id} ${incarnation}`;

/**
 * Who is at the other end, by the certificate alone. TLS has checked the chain when the connection
 * was made; the dates are looked at again because a connection may outlive its certificate. Whether it is still of an
 * authority in force, `LeafCheck` tells.
 * Throws `LinkError` UNAUTHENTICATED.
 */
export function peerIdentity(
  call: AuthenticatedCall,
  { clusterId, role, now }: { clusterId: string; role: DaemonRole; now: Date },
): Peer {
  const raw = call.getAuthContext().sslPeerCertificate?.raw;
  if (raw === undefined) throw new LinkError("UNAUTHENTICATED", "no client certificate");
  const certificate = new X509Certificate(raw);
  if (now < certificate.validFromDate || now > certificate.validToDate) {
    throw new LinkError("UNAUTHENTICATED", "the client certificate is not valid now");
  }
  const identity = identityOfAltName(certificate.subjectAltName);
  if (identity === null || identity.clusterId !== clusterId || identity.role !== role) {
    throw new LinkError("UNAUTHENTICATED", `the client certificate is not that of a ${role} of this cluster`);
  }
  const { validToDate: endsAt, subject, fingerprint256 } = certificate;
  return { ...identity, certificate: { endsAt, trust: trustOfSubject(subject), leaf: { fingerprint256, raw } } };
}

/** The identity's row was fenced or removed: the daemon is to be told so, once and for ever. */
export class IdentityFenced extends Error {
  override readonly name = "IdentityFenced";
}

/** Two machines were seen to use the identity. What they run goes on, and neither is listened to. */
export class IdentityQuarantined extends Error {
  override readonly name = "IdentityQuarantined";
}

/**
 * The row that the identity speaks for. Throws `IdentityFenced`, `IdentityQuarantined`, or `LinkError` PERMISSION_DENIED when there is no
 * such row: after a restore from backup that may be control's fault, so the daemon keeps what it runs.
 */
export async function admit(rows: SessionRows, identity: DaemonIdentity): Promise<NodeIdentityRow> {
  const row = await rows.findIdentity(identity.id);
  const problem = identityProblem(identity, row);
  if (problem === "fenced") throw new IdentityFenced(`${identity.role} ${identity.id} is fenced`);
  if (problem !== null || row === null) throw new LinkError("PERMISSION_DENIED", "control does not know this identity");
  if (row.quarantined_at !== null) throw new IdentityQuarantined(`two machines use the identity of ${row.name}`);
  return row;
}
