import { sql } from "kysely";
import type { Db } from "../db/pool.ts";

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
