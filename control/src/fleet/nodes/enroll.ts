import { timingSafeEqual } from "node:crypto";
import { sql } from "kysely";
import { recordAudit } from "../../http/audit.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Authority, Issuer } from "../ca/authority.ts";
import type { RequestedKey } from "../ca/certificates.ts";
import { findIdentity } from "../sessions/identity.ts";
import { redeem, type TokenRefusal } from "./rules.ts";
import { insertNode, setCertificateExpiry } from "./store.ts";
import { parseBootstrapToken } from "./token.ts";
import { tokenHash } from "./tokens.ts";

export interface EnrollRequest {
  token: string;
  /** The key of a checked certificate request. */
  key: RequestedKey;
  proposedName: string;
  /** Where the call came from: for the audit log, and as the node's own address unless an operator named others. */
  address: string;
}

export interface Enrolled {
  id: string;
  name: string;
  role: "node" | "edge";
  incarnation: number;
  /** PEM, leaf first. */
  certificate: string;
  /** PEM of every authority to trust. */
  trusted: string;
  /** True when the same token and key were answered before. */
  again: boolean;
}

/**
 * `fenced`: the token was used for a daemon that is refused now. `authority`: it names one that the cluster does not
 * have any more, so a daemon that trusts it could not be served.
 */
export type EnrollRefusal = TokenRefusal | "fenced" | "authority";

/**
 * Exchanges a token and a key for an identity. One transaction uses up the token and creates
 * the row; a repeated call with the same token and key gets the same identity (and a new certificate for it).
 */
export function enroll(
  db: Db,
  authority: Authority,
  { token, key, proposedName, address }: EnrollRequest,
  now: Date,
): Promise<Enrolled | { refused: EnrollRefusal }> {
  const parts = parseBootstrapToken(token);
  if (parts === null || parts.clusterId !== authority.clusterId) return Promise.resolve({ refused: "unknown" });
  return db.transaction().execute(async (tx) => {
    const issuer = await authority.lock(tx);
    const row = await tx
      .selectFrom("bootstrap_token")
      .select(["role", "hash", "expires_at", "revoked_at", "used_at", "used_key_hash", "node_id", "addresses"])
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
    if (row === undefined) return { refused: "unknown" };
    if ("refuse" in decision) {
      if (decision.refuse === "used") await noteReuse(tx, { id: parts.id, address, now });
      return { refused: decision.refuse };
    }
    const pinned = pinnedAuthority(parts.caSha256, issuer);
    if (pinned === null) return { refused: "authority" };
    const again = decision.admit === "again";
    const node = again
      ? await findIdentity(tx, decision.nodeId)
      : await insertNode(tx, {
          ...{ role: row.role, wish: proposedName, now },
          addresses: row.role === "edge" ? null : (row.addresses ?? [address]),
        });
    if (node === null || node.lifecycle !== "active") return { refused: "fenced" };
    if (!again) {
      await tx
        .updateTable("bootstrap_token")
        .set({ used_at: now, used_key_hash: key.hash, node_id: node.id })
        .where("id", "=", parts.id)
        .execute();
    }
    const { certificate, expiresAt } = await issuer.issueDaemon(node, key, now, ...pinned);
    await setCertificateExpiry(tx, node.id, expiresAt);
    const { id, name, role, incarnation } = node;
    return { id, name, role, incarnation, certificate, trusted: issuer.trusted, again };
  });
}

/** How to issue for a holder that trusts the authority with this fingerprint; null when the cluster has it no more. */
function pinnedAuthority(caSha256: string, issuer: Issuer): [] | ["previous"] | null {
  if (caSha256 === issuer.caSha256) return [];
  return caSha256 === issuer.previousSha256 ? ["previous"] : null;
}

/** Tells administrators that somebody else has the token too: at most once an hour, so that nobody fills the log by trying on. */
async function noteReuse(tx: Db, { id, address, now }: { id: string; address: string; now: Date }): Promise<void> {
  const { numUpdatedRows } = await tx
    .updateTable("bootstrap_token")
    .set({ reused_at: now })
    .where("id", "=", id)
    .where((row) =>
      row.or([row("reused_at", "is", null), row("reused_at", "<", sql<Date>`${now}::timestamptz - interval '1 hour'`)]),
    )
    .executeTakeFirst();
  if (numUpdatedRows === 0n) return;
  await recordAudit(tx, { caller: null, address, action: "bootstrap-token.reuse", target: id });
}
