import { X509Certificate } from "node:crypto";
import { type DaemonIdentity, type DaemonRole, identityOfAltName } from "../ca/identity.ts";
import type { Db } from "../db/pool.ts";
import { identityProblem } from "../nodes/rules.ts";
import { findIdentity, type NodeIdentityRow } from "../nodes/store.ts";
import { LinkError } from "./errors.ts";

/** The part of a grpc-js call that tells who made it. */
export interface AuthenticatedCall {
  getAuthContext(): { sslPeerCertificate?: { raw?: Buffer } };
}

/**
 * Who is at the other end, by the certificate alone. TLS has checked the chain when the connection
 * was made; the dates are looked at again because a connection may outlive its certificate.
 * Throws `LinkError` UNAUTHENTICATED.
 */
export function peerIdentity(
  call: AuthenticatedCall,
  { clusterId, role, now }: { clusterId: string; role: DaemonRole; now: Date },
): DaemonIdentity {
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
  return identity;
}

/** The identity's row was fenced or removed: the daemon is to be told so, once and for ever. */
export class IdentityFenced extends Error {
  override readonly name = "IdentityFenced";
}

/**
 * The row that the identity speaks for. Throws `IdentityFenced`, or `LinkError` PERMISSION_DENIED when there is no
 * such row: after a restore from backup that may be control's fault, so the daemon keeps what it runs.
 */
export async function admit(db: Db, identity: DaemonIdentity): Promise<NodeIdentityRow> {
  const row = await findIdentity(db, identity.id);
  const problem = identityProblem(identity, row);
  if (problem === "fenced") throw new IdentityFenced(`${identity.role} ${identity.id} is fenced`);
  if (problem !== null || row === null) throw new LinkError("PERMISSION_DENIED", "control does not know this identity");
  return row;
}
