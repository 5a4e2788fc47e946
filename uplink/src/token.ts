/** The parts of a bootstrap token `svcn1.<clusterId>.<caSha256>.<tokenId>.<secret>`. */
export interface BootstrapToken {
  clusterId: string;
  /** sha256 of the cluster CA in DER, lower-case hex. */
  caSha256: string;
  tokenId: string;
}

const shape = /^svcn1\.([A-Za-z0-9_-]{1,64})\.([0-9a-f]{64})\.([A-Za-z0-9_-]{1,64})\.([0-9a-f]{32})$/;

/** The public parts of a token, or null when it has another shape. The secret is not kept. */
export function parseToken(text: string): BootstrapToken | null {
  const match = shape.exec(text);
  const [, clusterId, caSha256, tokenId] = match ?? [];
  if (clusterId === undefined || caSha256 === undefined || tokenId === undefined) return null;
  return { clusterId, caSha256, tokenId };
}
