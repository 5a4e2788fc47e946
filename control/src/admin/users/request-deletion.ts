import { randomBytes } from "node:crypto";
import { sql } from "kysely";
import type { Db } from "../../db/pool.ts";
import { enqueue } from "../../work/queue.ts";
import { formerEmail } from "./rules.ts";
import { deleteSessions } from "./store.ts";

/** Work of this kind takes down what a deleted user owns, and then the user. */
export const deleteUserKind = "delete-user";

/** Of what was theirs when the deletion began. */
export interface UserDeletion {
  keys: number;
  sessions: number;
  projects: number;
}

/**
 * Begins the end of a user whose row the caller has locked. From its commit on nobody can act as them: keys, sessions
 * and all ways to sign in are gone, and a session that was being made meanwhile is that of somebody banned. The address
 * is free for another account. The rest is work of kind `delete-user`.
 */
export async function requestUserDeletion(tx: Db, userId: string, requestedBy: string): Promise<UserDeletion> {
  await tx.insertInto("user_deletion").values({ user_id: userId, requested_by: requestedBy }).execute();
  const email = formerEmail(userId, randomBytes(16).toString("hex"));
  await sql`
    update auth."user" set banned = true, "banReason" = 'deleted', "banExpires" = null, email = ${email},
      "emailVerified" = false, "updatedAt" = now()
    where id = ${userId}`.execute(tx);
  const { numDeletedRows: keys } = await tx.deleteFrom("api_token").where("user_id", "=", userId).executeTakeFirst();
  const sessions = await deleteSessions(tx, userId);
  await deleteWaysIn(tx, userId);
  // Their plan is nobody's for as long as the rest takes.
  await tx.deleteFrom("account").where("user_id", "=", userId).execute();
  const { count: projects } = await tx
    .selectFrom("project")
    .select((project) => project.fn.countAll<number>().as("count"))
    .where("owner_id", "=", userId)
    .where("deleting_at", "is", null)
    .executeTakeFirstOrThrow();
  await enqueue(tx, { kind: deleteUserKind, key: `user/${userId}`, payload: { userId } });
  return { keys: Number(keys), sessions, projects };
}

/** Passwords, linked providers, and what was begun with a mail or on another device. */
async function deleteWaysIn(tx: Db, userId: string): Promise<void> {
  await tx.deleteFrom("auth.account").where("userId", "=", userId).execute();
  await sql`delete from auth."deviceCode" where "userId" = ${userId}`.execute(tx);
  await sql`delete from auth."verification" where value = ${userId}`.execute(tx);
}
