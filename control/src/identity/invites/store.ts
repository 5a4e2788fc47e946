import type { InviteView } from "@svc/proto";
import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";

export interface NewInvite {
  id: string;
  email: string;
  hash: Buffer;
  createdBy: string;
  expiresAt: Date;
}

/** Stores the invitation, which takes the place of one to the same address that nobody used, and marks the address on the waiting list. */
export async function replaceInvite(tx: Db, { id, email, hash, createdBy, expiresAt }: NewInvite): Promise<void> {
  // Two at once would both find none to replace.
  await sql`select pg_advisory_xact_lock(hashtextextended(${`invite ${email}`}, 0))`.execute(tx);
  await tx.deleteFrom("invite").where("email", "=", email).where("used_at", "is", null).execute();
  await tx.insertInto("invite").values({ id, email, hash, created_by: createdBy, expires_at: expiresAt }).execute();
  await tx.updateTable("waitlist_entry").set({ invited_at: sql<Date>`now()` }).where("email", "=", email).execute();
}

/** A sign-up that took the code and made no account in so long gives it back: its process may have died. */
const claimSeconds = 60;
/** A database that was given a long list is asked for no more than people can look at. */
const listedMax = 1000;

const isFree = sql<boolean>`used_at is null and expires_at > now()
  and (claimed_at is null or claimed_at < now() - ${claimSeconds} * interval '1 second')`;

/** Whether the code with this hash lets an account be made with `email` now. */
export async function isOpenInvite(db: Db, hash: Buffer, email: string): Promise<boolean> {
  const row = await db
    .selectFrom("invite")
    .select("id")
    .where("hash", "=", hash)
    .where("email", "=", email)
    .where(isFree)
    .executeTakeFirst();
  return row !== undefined;
}

/** Takes the code for a sign-up that is about to make the account; of several at once one gets it. Null: not to be had. */
export async function claimInvite(db: Db, hash: Buffer, email: string): Promise<string | null> {
  const row = await db
    .updateTable("invite")
    .set({ claimed_at: sql<Date>`now()` })
    .where("hash", "=", hash)
    .where("email", "=", email)
    .where(isFree)
    .returning("id")
    .executeTakeFirst();
  return row?.id ?? null;
}

/** Notes that the invitation of this address, which was claimed, made the account. Null when none was. */
export async function useInvite(db: Db, email: string, userId: string): Promise<string | null> {
  const row = await db
    .updateTable("invite")
    .set({ used_at: sql<Date>`now()`, user_id: userId })
    .where("email", "=", email)
    .where("used_at", "is", null)
    .where("claimed_at", "is not", null)
    .returning("id")
    .executeTakeFirst();
  return row?.id ?? null;
}

/** Newest first. */
export async function listInvites(db: Db): Promise<InviteView[]> {
  const rows = await db
    .selectFrom("invite")
    .select(["id", "email", "created_at", "expires_at", "used_at"])
    .select(sql<boolean>`expires_at <= now()`.as("expired"))
    .orderBy("created_at", "desc")
    .orderBy("id")
    .limit(listedMax)
    .execute();
  return rows.map(({ id, email, created_at, expires_at, used_at, expired }) => ({
    id,
    email,
    status: used_at !== null ? "used" : expired ? "expired" : "open",
    createdAt: created_at.toISOString(),
    expiresAt: expires_at.toISOString(),
    usedAt: used_at?.toISOString() ?? null,
  }));
}

/** Takes an invitation back; false when there is none that is still unused. */
export async function deleteInvite(tx: Db, id: string): Promise<boolean> {
  const { numDeletedRows } = await tx
    .deleteFrom("invite")
    .where("id", "=", id)
    .where("used_at", "is", null)
    .executeTakeFirst();
  return numDeletedRows > 0n;
}

/** How long it can be seen who was invited. */
const keptDays = 90;

/** Deletes invitations that are long over. Returns how many. */
export async function deleteOldInvites(db: Db): Promise<number> {
  const { numDeletedRows } = await db
    .deleteFrom("invite")
    .where("expires_at", "<", sql<Date>`now() - ${keptDays} * interval '1 day'`)
    .executeTakeFirst();
  return Number(numDeletedRows);
}
