import { sql } from "kysely";
import { recordAudit } from "../../http/audit.ts";
import type { Db } from "../../stores/db/pool.ts";
import { hashCode, isCode, newCode } from "../invites/code.ts";
import { addAdmin } from "./admin.ts";
import type { Auth } from "./auth.ts";

/** Whether anybody administers this installation. The library keeps several roles in one text. */
async function hasAdmin(db: Db): Promise<boolean> {
  const { rows } = await sql<{ found: boolean }>`
    select exists (select 1 from auth."user" where 'admin' = any(string_to_array(role, ','))) as found`.execute(db);
  return rows[0]?.found ?? true;
}

/**
 * Makes the code of the link with which the first administrator comes in. It works once and for `ttlSeconds`; one that
 * was made before works no more. Null when there already is an administrator.
 */
export async function createClaimLink(db: Db, ttlSeconds: number): Promise<string | null> {
  if (await hasAdmin(db)) return null;
  const code = newCode();
  const fresh = {
    hash: hashCode(code),
    created_at: sql<Date>`now()`,
    expires_at: sql<Date>`now() + ${ttlSeconds} * interval '1 second'`,
  };
  await db
    .insertInto("claim_link")
    .values(fresh)
    .onConflict((on) => on.column("only").doUpdateSet(fresh))
    .execute();
  return code;
}

/** Whether the link with this code would make an administrator now. */
export async function isOpenClaim(db: Db, code: string): Promise<boolean> {
  if (!isCode(code) || (await hasAdmin(db))) return false;
  const row = await openClaim(db, code).executeTakeFirst();
  return row !== undefined;
}

const openClaim = (db: Db, code: string) =>
  db
    .selectFrom("claim_link")
    .select("only")
    .where("hash", "=", hashCode(code))
    .where("expires_at", ">", sql<Date>`now()`);

/** `closed`: the link is used, replaced, expired or none. `taken`: somebody else has an account with the address. */
export type ClaimOutcome = "done" | "closed" | "taken";

/**
 * Makes the first administrator with what the person chose; nobody's account is taken over. Of two at once one gets
 * through; a process that dies in the middle leaves either nothing or the administrator. Throws `InvalidAccount`.
 */
export async function claim(
  { db, auth }: { db: Db; auth: Auth },
  { code, email, password, address }: { code: string; email: string; password: string; address: string },
): Promise<ClaimOutcome> {
  if (!isCode(code)) return "closed";
  return db.transaction().execute(async (tx) => {
    // The row stays locked, so that whoever comes second finds it gone.
    const open = await openClaim(tx, code).forUpdate().executeTakeFirst();
    if (open === undefined || (await hasAdmin(tx))) return "closed";
    const userId = await addAdmin(tx, auth, { email, password });
    if (userId === null) return "taken";
    await tx.deleteFrom("claim_link").execute();
    await recordAudit(tx, {
      caller: { userId, tokenId: null },
      address,
      action: "account.claim",
      target: userId,
    });
    return "done";
  });
}
