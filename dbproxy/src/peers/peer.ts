// @pure
import { type DaemonRole, identityOfAltName } from "@svc/proto/daemon-identity";

/** The node that a certificate of this cluster names; null when it names none, or one of another cluster. */
export const nodeOf = (subjectAltName: string | undefined, clusterId: string): string | null =>
  daemonOf("node", subjectAltName, clusterId);

/** Likewise the edge. */
export const edgeOf = (subjectAltName: string | undefined, clusterId: string): string | null =>
  daemonOf("edge", subjectAltName, clusterId);

function daemonOf(role: DaemonRole, subjectAltName: string | undefined, clusterId: string): string | null {
  const identity = identityOfAltName(subjectAltName);
  return identity?.role === role && identity.clusterId === clusterId ? identity.id : null;
}
