import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";

/** The hash of the user's password; null when there is none. */
export async function findPasswordHash(db: Db, userId: string): Promise<string | null> {
  const row = await db
    .selectFrom("auth.account")
    .select("password")
    .where("userId", "=", userId)
    .where("providerId", "=", "credential")
    .executeTakeFirst();
  return row?.password ?? null;
}

export interface UserWithPassword {
  id: string;
  email: string;
  /** Its hash; null when there is none. */
  password: string | null;
}

/** The user with this address and the hash of their password, in one query, whether or not there is either. */
export async function findUserWithPassword(db: Db, email: string): Promise<UserWithPassword | null> {
  const row = await db
    .selectFrom("auth.user")
    .leftJoin("auth.account", (join) =>
      join.onRef("auth.account.userId", "=", "auth.user.id").on("auth.account.providerId", "=", "credential"),
    )
    .select(["auth.user.id", "auth.user.email", "auth.account.password"])
    .where("auth.user.email", "=", email.toLowerCase())
    .executeTakeFirst();
  return row ?? null;
}

/** Gives the user the password with this hash, whatever it was before. Needs the user's row locked. */
export async function storePasswordHash(tx: Db, userId: string, hash: string): Promise<void> {
  const { numUpdatedRows } = await tx
    .updateTable("auth.account")
    .set({ password: hash, updatedAt: sql<Date>`clock_timestamp()` })
    .where("userId", "=", userId)
    .where("providerId", "=", "credential")
    .executeTakeFirst();
  if (numUpdatedRows > 0n) return;
  await sql`insert into auth."account" ("accountId", "providerId", "userId", "password", "updatedAt")
    values (${userId}, 'credential', ${userId}, ${hash}, clock_timestamp())`.execute(tx);
}
