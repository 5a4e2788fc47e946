/** The parts of a bootstrap token. It names the cluster and its authority, so that a daemon knows whom it may trust. */
export interface BootstrapTokenParts {
  clusterId: string;
  /** sha256 of the authority's DER, hex. */
  caSha256: string;
  id: string;
  /** 128 random bits, hex. */
  secret: string;
}

const pattern = /^svcn1\.([0-9a-f-]{36})\.([0-9a-f]{64})\.([0-9a-f]{16})\.([0-9a-f]{32})$/;

/** svcn1.<cluster id>.<sha256 of the authority>.<token id>.<secret> */
export const formatBootstrapToken = ({ clusterId, caSha256, id, secret }: BootstrapTokenParts) =>
  `svcn1.${clusterId}.${caSha256}.${id}.${secret}`;

/** The parts, or null when the text is not a bootstrap token. */
export function parseBootstrapToken(text: string): BootstrapTokenParts | null {
  const [, clusterId, caSha256, id, secret] = pattern.exec(text) ?? [];
  if (clusterId === undefined || caSha256 === undefined || id === undefined || secret === undefined) return null;
  return { clusterId, caSha256, id, secret };
}
