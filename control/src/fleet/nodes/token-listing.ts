import { type BootstrapToken, limits } from "@svc/proto";
import type { Db } from "../../stores/db/pool.ts";

const iso = (at: Date | null) => at?.toISOString() ?? null;

/** Tokens without what they are, newest first. */
export async function listBootstrapTokens(db: Db, now: Date): Promise<BootstrapToken[]> {
  const rows = await db
    .selectFrom("bootstrap_token")
    .leftJoin("node", "node.id", "bootstrap_token.node_id")
    .select(["bootstrap_token.id", "bootstrap_token.role", "bootstrap_token.created_at", "bootstrap_token.expires_at"])
    .select(["bootstrap_token.used_at", "bootstrap_token.revoked_at"])
    .select(["node.id as node_id", "node.name as node_name"])
    .orderBy("bootstrap_token.created_at", "desc")
    .orderBy("bootstrap_token.id")
    .limit(limits.bootstrapTokensListMax)
    .execute();
  return rows.map((row) => ({
    ...{ id: row.id, role: row.role, status: statusOf(row, now) },
    createdAt: row.created_at.toISOString(),
    expiresAt: row.expires_at.toISOString(),
    usedAt: iso(row.used_at),
    revokedAt: iso(row.revoked_at),
    node: row.node_id === null || row.node_name === null ? null : { id: row.node_id, name: row.node_name },
  }));
}

/** What a token is good for now. One that was used is that, whatever came after. */
function statusOf(
  { used_at, revoked_at, expires_at }: { used_at: Date | null; revoked_at: Date | null; expires_at: Date },
  now: Date,
): BootstrapToken["status"] {
  if (used_at !== null) return "used";
  if (revoked_at !== null) return "revoked";
  return expires_at <= now ? "expired" : "open";
}
