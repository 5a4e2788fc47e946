import { timingSafeEqual } from "node:crypto";
import type { Authority } from "../ca/authority.ts";
import type { RequestedKey } from "../ca/certificates.ts";
import type { Db } from "../db/pool.ts";
import { redeem, type TokenRefusal } from "./rules.ts";
import { findIdentity, insertNode, setCertificateExpiry } from "./store.ts";
import { parseBootstrapToken } from "./token.ts";
import { tokenHash } from "./tokens.ts";

export interface EnrollRequest {
  token: string;
  /** The key of a checked certificate request. */
  key: RequestedKey;
  proposedName: string;
}

export interface Enrolled {
  id: string;
  name: string;
  role: "node" | "edge";
  incarnation: number;
  /** PEM. */
  certificate: string;
  /** True when the same token and key were answered before. */
  again: boolean;
}

/** `fenced`: the token was used for a daemon that is refused now. */
export type EnrollRefusal = TokenRefusal | "fenced";

/**
 * Exchanges a token and a key for an identity. One transaction uses up the token and creates
 * the row; a repeated call with the same token and key gets the same identity (and a new certificate for it).
 */
export function enroll(
  db: Db,
  authority: Authority,
  { token, key, proposedName }: EnrollRequest,
  now: Date,
): Promise<Enrolled | { refused: EnrollRefusal }> {
  const parts = parseBootstrapToken(token);
  if (parts === null || parts.clusterId !== authority.clusterId || parts.caSha256 !== authority.caSha256) {
    return Promise.resolve({ refused: "unknown" });
  }
  return db.transaction().execute(async (tx) => {
    const row = await tx
      .selectFrom("bootstrap_token")
      .select(["role", "hash", "expires_at", "revoked_at", "used_at", "used_key_hash", "node_id"])
      .where("id", "=", parts.id)
      .forUpdate()
      .executeTakeFirst();
    const decision = redeem(
      row === undefined
        ? null
        : {
            expiresAt: row.expires_at,
            revokedAt: row.revoked_at,
            usedAt: row.used_at,
            usedKeyHash: row.used_key_hash,
            nodeId: row.node_id,
          },
      {
        secretMatches: row !== undefined && timingSafeEqual(row.hash, tokenHash(parts.secret)),
        keyHash: key.hash,
        now,
      },
    );
    if ("refuse" in decision || row === undefined)
      return { refused: "refuse" in decision ? decision.refuse : "unknown" };
    const again = decision.admit === "again";
    const node = again
      ? await findIdentity(tx, decision.nodeId)
      : await insertNode(tx, { role: row.role, wish: proposedName, now });
    if (node === null || node.lifecycle !== "active") return { refused: "fenced" };
    if (!again) {
      await tx
        .updateTable("bootstrap_token")
        .set({ used_at: now, used_key_hash: key.hash, node_id: node.id })
        .where("id", "=", parts.id)
        .execute();
    }
    const { certificate, expiresAt } = await authority.issueDaemon(node, key, now);
    await setCertificateExpiry(tx, node.id, expiresAt);
    return { id: node.id, name: node.name, role: node.role, incarnation: node.incarnation, certificate, again };
  });
}
