// @pure
import { identityOfAltName } from "@svc/proto/daemon-identity";

/** The node that a certificate of this cluster names; null when it names none, or one of another cluster. */
export function nodeOf(subjectAltName: string | undefined, clusterId: string): string | null {
  const identity = identityOfAltName(subjectAltName);
  return identity?.role === "node" && identity.clusterId === clusterId ? identity.id : null;
}
