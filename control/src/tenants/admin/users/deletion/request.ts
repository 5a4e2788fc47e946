import { randomBytes } from "node:crypto";
import { sql } from "kysely";
import type { Db } from "../../../../stores/db/pool.ts";
import { enqueue } from "../../../../stores/work/queue.ts";
import { lockNamesOf } from "../../../domains/store.ts";
import { requestTeardown } from "../../../projects/teardown/request.ts";
import { formerEmail } from "../rules.ts";
import { deleteSignInSessions } from "../store.ts";

/** Work of this kind waits for the end of what a deleted user owns, and then deletes the user. */
export const deleteUserKind = "delete-user";

/** Projects that one statement marks. */
const batchSize = 500;

/** Of what was theirs when the deletion began. */
export interface UserDeletion {
  keys: number;
  sessions: number;
  projects: number;
}

/**
 * Begins the end of a user whose row the caller has locked. From its commit on nobody can act as them: keys, sessions
 * and all ways to sign in are gone, and a session that was being made meanwhile is that of somebody banned. The address
 * is free for another account, and so are the slugs of their projects, which begin to go. The rest is work of kind
 * `delete-user`.
 */
export async function requestUserDeletion(tx: Db, userId: string, requestedBy: string): Promise<UserDeletion> {
  await tx.insertInto("user_deletion").values({ user_id: userId, requested_by: requestedBy }).execute();
  const email = formerEmail(userId, randomBytes(16).toString("hex"));
  await sql`
    update auth."user" set banned = true, "banReason" = 'deleted', "banExpires" = null, email = ${email},
      "emailVerified" = false, "updatedAt" = now()
    where id = ${userId}`.execute(tx);
  const { numDeletedRows: keys } = await tx.deleteFrom("api_token").where("user_id", "=", userId).executeTakeFirst();
  const sessions = await deleteSignInSessions(tx, userId);
  await deleteWaysIn(tx, userId);
  // Their plan is nobody's for as long as the rest takes.
  await tx.deleteFrom("account").where("user_id", "=", userId).execute();
  const projects = await tearDownAll(tx, userId);
  await enqueue(tx, { kind: deleteUserKind, key: `user/${userId}`, payload: { userId } });
  return { keys: Number(keys), sessions, projects };
}

/**
 * Begins the teardown of the projects of a user whose row the caller has locked. Returns how many. All of them are locked
 * before the first one goes: whoever has the last one locked may wait for something of the first one.
 */
export async function tearDownAll(tx: Db, userId: string): Promise<number> {
  const projects = await tx
    .selectFrom("project")
    .select("id")
    .where("owner_id", "=", userId)
    .where("deleting_at", "is", null)
    .orderBy("id")
    .forNoKeyUpdate()
    .execute();
  const ids = projects.map(({ id }) => id);
  await lockNamesOf(tx, ids);
  for (let at = 0; at < ids.length; at += batchSize) await requestTeardown(tx, ids.slice(at, at + batchSize));
  return ids.length;
}

/** Passwords, linked providers, and what was begun with a mail or on another device. */
async function deleteWaysIn(tx: Db, userId: string): Promise<void> {
  await tx.deleteFrom("auth.account").where("userId", "=", userId).execute();
  await sql`delete from auth."deviceCode" where "userId" = ${userId}`.execute(tx);
  await sql`delete from auth."verification" where value = ${userId}`.execute(tx);
}
