// @pure
/** A stored bootstrap token, as far as it decides. */
export interface StoredToken {
  expiresAt: Date;
  revokedAt: Date | null;
  usedAt: Date | null;
  /** sha256 of the public key that it admitted. */
  usedKeyHash: Buffer | null;
  nodeId: string | null;
}

export type TokenRefusal = "unknown" | "revoked" | "expired" | "used";
export type Redemption = { admit: "new" } | { admit: "again"; nodeId: string } | { refuse: TokenRefusal };

/** How long after its use a token repeats its answer, even past its end: a reply lost at the last moment is not a lost node. */
const repeatMs = 600_000;

/**
 * Whether a token admits the holder of a key. It admits one key, once; the same key gets the
 * same answer again while the token lives, so that a lost reply can be repeated.
 * `secretMatches` is compared in constant time by the caller.
 */
export function redeem(
  token: StoredToken | null,
  { secretMatches, keyHash, now }: { secretMatches: boolean; keyHash: Buffer; now: Date },
): Redemption {
  if (token === null || !secretMatches) return { refuse: "unknown" };
  if (token.revokedAt !== null) return { refuse: "revoked" };
  const expired = token.expiresAt <= now;
  if (token.usedAt === null) return expired ? { refuse: "expired" } : { admit: "new" };
  if (token.usedKeyHash === null || !token.usedKeyHash.equals(keyHash) || token.nodeId === null) {
    return { refuse: "used" };
  }
  const repeatable = !expired || now.getTime() - token.usedAt.getTime() < repeatMs;
  return repeatable ? { admit: "again", nodeId: token.nodeId } : { refuse: "expired" };
}

const maxNameLength = 40;

/**
 * The candidates for a daemon's name, the wished one first, then with a number. A wish that
 * leaves nothing after cleaning gets the role as its name.
 */
export function nodeNames(wish: string, role: "node" | "edge", count: number): string[] {
  const clean = wish
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .slice(0, maxNameLength)
    .replace(/^-+|-+$/g, "");
  const base = clean === "" ? role : clean;
  return Array.from({ length: count }, (_, index) => (index === 0 ? base : `${base}-${index + 1}`));
}
