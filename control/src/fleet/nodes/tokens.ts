import { createHash, randomBytes } from "node:crypto";
import type { Db } from "../../stores/db/pool.ts";
import { formatBootstrapToken } from "./token.ts";

/** What is stored of a token's secret. 128 random bits need no slow hash. */
export const tokenHash = (secret: string) => createHash("sha256").update(secret).digest();

export interface NewBootstrapToken {
  role: "node" | "edge";
  ttlSeconds: number;
  /** Where the node that joins with it may be reached; absent: where it joins from. */
  addresses?: readonly string[];
  /** User id; null when it was made on the server's own command line. */
  createdBy: string | null;
  clusterId: string;
  caSha256: string;
  now: Date;
}

/** Makes a token that admits one daemon. The text is returned here and nowhere else: only a hash is kept. */
export async function createBootstrapToken(
  db: Db,
  { role, ttlSeconds, addresses, createdBy, clusterId, caSha256, now }: NewBootstrapToken,
): Promise<{ id: string; token: string; expiresAt: Date }> {
  const id = randomBytes(8).toString("hex");
  const secret = randomBytes(16).toString("hex");
  const expiresAt = new Date(now.getTime() + ttlSeconds * 1000);
  await db
    .insertInto("bootstrap_token")
    .values({
      ...{ id, hash: tokenHash(secret), role, created_by: createdBy, created_at: now, expires_at: expiresAt },
      addresses: addresses === undefined ? null : JSON.stringify(addresses),
    })
    .execute();
  return { id, token: formatBootstrapToken({ clusterId, caSha256, id, secret }), expiresAt };
}

/** Ends every token that looks unused, and tells how many those were. */
export async function revokeOpenTokens(db: Db, now: Date): Promise<number> {
  const { numUpdatedRows } = await db
    .updateTable("bootstrap_token")
    .set({ revoked_at: now })
    .where("used_at", "is", null)
    .where("revoked_at", "is", null)
    .executeTakeFirst();
  return Number(numUpdatedRows);
}

/** Ends a token, and returns the daemon that it had admitted, which stays; null when there is no such token. */
export async function revokeBootstrapToken(
  db: Db,
  id: string,
  now: Date,
): Promise<{ node: { id: string; name: string } | null } | null> {
  const row = await db
    .updateTable("bootstrap_token")
    .set((eb) => ({ revoked_at: eb.fn.coalesce("revoked_at", eb.val(now)) }))
    .where("id", "=", id)
    .returning("node_id")
    .executeTakeFirst();
  if (row === undefined) return null;
  if (row.node_id === null) return { node: null };
  const node = await db.selectFrom("node").select(["id", "name"]).where("id", "=", row.node_id).executeTakeFirst();
  return { node: node ?? null };
}
