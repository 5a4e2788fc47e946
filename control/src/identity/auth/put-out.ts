import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";

/** What is known of a user whose row is locked. */
export interface LockedUser {
  email: string;
  emailVerified: boolean;
  role: string | null;
}

/**
 * Holds off whoever else changes what opens the account, until the transaction ends; banned users too. Null: there is
 * no such user.
 */
export async function lockAccess(tx: Db, userId: string): Promise<LockedUser | null> {
  const row = await tx
    .selectFrom("auth.user")
    .select(["email", "emailVerified", "role"])
    .where("id", "=", userId)
    .forNoKeyUpdate()
    .executeTakeFirst();
  return row ?? null;
}

/**
 * Ends the user's sessions but the one with the token `kept` (null: all), logins of command lines that were approved or
 * wait for it, and links to reset the password that were mailed. Needs the user's row locked.
 */
export async function signOutEverywhere(tx: Db, userId: string, kept: string | null): Promise<void> {
  const sessions = tx.deleteFrom("auth.session").where("userId", "=", userId);
  await (kept === null ? sessions : sessions.where("token", "<>", kept)).execute();
  await sql`delete from auth."deviceCode" where "userId" = ${userId}`.execute(tx);
  await sql`delete from auth."verification" where value = ${userId}`.execute(tx);
  // By this a sign-in that was under way sees that it came too late; see `endIfPutOut`. Clocks may differ.
  await sql`update auth."user" set "updatedAt" = greatest(clock_timestamp(), "updatedAt" + interval '10 milliseconds')
    where id = ${userId}`.execute(tx);
}

/**
 * For whoever has proven that the account is theirs when nobody had before: nothing that was made until now opens it
 * any more, neither sessions nor API keys nor accounts elsewhere; only its password is left to be replaced. Needs the
 * user's row locked.
 */
export async function takeOver(tx: Db, userId: string): Promise<void> {
  await signOutEverywhere(tx, userId, null);
  await tx.deleteFrom("api_token").where("user_id", "=", userId).execute();
  await tx.deleteFrom("auth.account").where("userId", "=", userId).where("providerId", "<>", "credential").execute();
}

/** Whether the user still has the session with this token. Under the user's lock it stays so. */
export async function hasSession(tx: Db, userId: string, token: string): Promise<boolean> {
  const row = await tx
    .selectFrom("auth.session")
    .select("id")
    .where("userId", "=", userId)
    .where("token", "=", token)
    .where("expiresAt", ">", sql<Date>`clock_timestamp()`)
    .executeTakeFirst();
  return row !== undefined;
}

/**
 * Ends a session that has just begun if everybody was signed out after `user` was read, which is before its password or
 * code was looked at. True if so.
 */
export async function endIfPutOut(db: Db, user: { id: string; updatedAt: Date }, token: string): Promise<boolean> {
  const { numAffectedRows } = await sql`delete from auth."session" where token = ${token} and not exists (
    select 1 from auth."user" where id = ${user.id}
      and "updatedAt" < ${user.updatedAt}::timestamptz + interval '2 milliseconds')`.execute(db);
  return (numAffectedRows ?? 0n) > 0n;
}

/** Ends a session that has begun by an account elsewhere which the user has no more. True if so. */
export async function endIfUnlinked(db: Db, userId: string, token: string): Promise<boolean> {
  const { numAffectedRows } = await sql`delete from auth."session" where token = ${token} and not exists (
    select 1 from auth."account" where "userId" = ${userId} and "providerId" <> 'credential')`.execute(db);
  return (numAffectedRows ?? 0n) > 0n;
}

/** Takes back the connection of an account elsewhere. */
export async function dropLink(db: Db, id: string): Promise<void> {
  await db.deleteFrom("auth.account").where("id", "=", id).execute();
}

/** Makes a device code worth nothing. better-auth keeps them without the hyphen. */
export async function dropDeviceCode(db: Db, userCode: string): Promise<void> {
  await sql`delete from auth."deviceCode" where "userCode" = ${userCode.replaceAll("-", "")}`.execute(db);
}
