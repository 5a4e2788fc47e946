// @pure
/** What a daemon is in the cluster. A node runs tasks, an edge serves visitors. */
export type DaemonRole = "node" | "edge";

/** Who holds a certificate. Force-fencing raises the incarnation of the row, and older certificates are refused. */
export interface DaemonIdentity {
  clusterId: string;
  role: DaemonRole;
  id: string;
  incarnation: number;
}

const uuid = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
const uriPattern = new RegExp(`^spiffe://(${uuid})/(node|edge)/(${uuid})/([1-9][0-9]{0,14})$`);

/** The URI that the certificate carries as its only subject alternative name. */
export const identityUri = ({ clusterId, role, id, incarnation }: DaemonIdentity) =>
  `spiffe://${clusterId}/${role}/${id}/${incarnation}`;

/** The identity in `uri`, or null when it is not exactly one of ours. */
export function parseIdentityUri(uri: string): DaemonIdentity | null {
  const [, clusterId, role, id, incarnation] = uriPattern.exec(uri) ?? [];
  if (clusterId === undefined || id === undefined || (role !== "node" && role !== "edge")) return null;
  return { clusterId, role, id, incarnation: Number(incarnation) };
}

/**
 * The identity in the text form of a certificate's subject alternative names ("URI:spiffe://…").
 * Null unless there is exactly one name: a second one would leave open which of them was meant.
 */
export function identityOfAltName(subjectAltName: string | undefined): DaemonIdentity | null {
  if (subjectAltName === undefined || !subjectAltName.startsWith("URI:")) return null;
  return parseIdentityUri(subjectAltName.slice("URI:".length));
}
