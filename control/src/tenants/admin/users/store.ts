import { sql } from "kysely";
import type { Caller } from "../../../http/caller.ts";
import type { Db } from "../../../stores/db/pool.ts";
import { Refused } from "../../../stores/refused.ts";
import { roleOf } from "./rules.ts";

/** Somebody whom administrators may act on: not one whose deletion began. */
export interface AdministeredUser {
  id: string;
  email: string;
  /** As the identity library keeps it. */
  role: string | null;
}

interface LockedUser extends AdministeredUser {
  isBanned: boolean;
  isLeaving: boolean;
}

/**
 * Whom `caller` acts on, with both rows locked until the transaction ends. Whoever acts is asked again whether they
 * still may: of two administrators who act on one another at once the second is one no more. So there is always one
 * left, because nobody can act on themselves. Throws UNAUTHORIZED, FORBIDDEN and NOT_FOUND.
 */
export async function lockAdministered(tx: Db, caller: Pick<Caller, "userId">, id: string): Promise<AdministeredUser> {
  // In one order, or two who act on one another would wait for one another.
  const ids = [caller.userId, id];
  await sql`select id from auth."user" where id = any(${ids}::uuid[]) order by id for no key update`.execute(tx);
  // A statement of its own: what was committed while this one waited is to be seen.
  const { rows } = await sql<LockedUser>`
    select id, email, role,
      coalesce(banned, false) and ("banExpires" is null or "banExpires" > now()) as "isBanned",
      exists (select from user_deletion where user_id = "user".id) as "isLeaving"
    from auth."user" where id = any(${ids}::uuid[])`.execute(tx);
  const self = rows.find((row) => row.id === caller.userId);
  if (self === undefined || self.isBanned || self.isLeaving) throw new Refused("UNAUTHORIZED");
  if (roleOf(self.role) !== "admin") throw new Refused("FORBIDDEN");
  const user = rows.find((row) => row.id === id);
  if (user === undefined || user.isLeaving) throw new Refused("NOT_FOUND");
  return { id: user.id, email: user.email, role: user.role };
}

/** Without `seconds` until somebody lifts it. Another ban takes the place of one in force. */
export async function banUser(
  tx: Db,
  id: string,
  ban: { reason: string | null; seconds: number | null },
): Promise<void> {
  await sql`
    update auth."user" set banned = true, "banReason" = ${ban.reason}::text,
      "banExpires" = now() + ${ban.seconds}::bigint * interval '1 second', "updatedAt" = now()
    where id = ${id}`.execute(tx);
}

export async function unbanUser(tx: Db, id: string): Promise<void> {
  await sql`
    update auth."user" set banned = false, "banReason" = null, "banExpires" = null, "updatedAt" = now()
    where id = ${id}`.execute(tx);
}

export async function setRole(tx: Db, id: string, role: string): Promise<void> {
  await sql`update auth."user" set role = ${role}, "updatedAt" = now() where id = ${id}`.execute(tx);
}

/** Ends every session. Returns how many there were. */
export async function deleteSignInSessions(tx: Db, userId: string): Promise<number> {
  const { numDeletedRows } = await tx.deleteFrom("auth.session").where("userId", "=", userId).executeTakeFirst();
  return Number(numDeletedRows);
}

/** False when there is no such plan. One that is being deleted meanwhile is waited for. */
export async function setPlan(tx: Db, userId: string, slug: string): Promise<boolean> {
  const plan = await tx.selectFrom("plan").select("id").where("slug", "=", slug).forKeyShare().executeTakeFirst();
  if (plan === undefined) return false;
  await tx
    .insertInto("account")
    .values({ user_id: userId, plan_id: plan.id })
    .onConflict((conflict) => conflict.column("user_id").doUpdateSet({ plan_id: plan.id }))
    .execute();
  return true;
}
