import { limits, type WaitlistEntry } from "@svc/proto";
import { sql } from "kysely";
import { recordAudit } from "../../http/audit.ts";
import type { Db } from "../../stores/db/pool.ts";
import { takeAttempt } from "../limits/attempts.ts";

/** Anybody can ask, and from many addresses: what the audit says of it is bounded, as the list is. */
const noted = { capacity: 500, secondsPerToken: 6 };

/**
 * Puts the address on the list, once, and notes where that came from. Beyond its bound the list lets go of whoever has
 * waited the longest without an invitation, and only then of somebody who has one: nobody can shut it to others.
 */
export async function joinWaitlist(db: Db, email: string, address: string): Promise<void> {
  await db.transaction().execute(async (tx) => {
    // The lock keeps the count exact.
    await sql`select pg_advisory_xact_lock(hashtextextended('waitlist', 0))`.execute(tx);
    const added = await tx
      .insertInto("waitlist_entry")
      .values({ email })
      .onConflict((on) => on.doNothing())
      .returning("email")
      .executeTakeFirst();
    if (added === undefined) return;
    await sql`delete from waitlist_entry where email in (
      select email from waitlist_entry where email <> ${email}
      order by invited_at is null, created_at desc, email desc
      offset ${limits.waitlistEntriesMax - 1})`.execute(tx);
    if ((await takeAttempt(tx, { what: "audit", whose: "waitlist.join" }, noted)) !== null) return;
    await recordAudit(tx, { caller: null, address, action: "waitlist.join", target: email });
  });
}

/** Oldest first. */
export async function listWaitlist(db: Db): Promise<WaitlistEntry[]> {
  const rows = await db
    .selectFrom("waitlist_entry")
    .selectAll()
    .orderBy("created_at")
    .orderBy("email")
    .limit(limits.waitlistEntriesMax)
    .execute();
  return rows.map(({ email, created_at, invited_at }) => ({
    email,
    createdAt: created_at.toISOString(),
    invitedAt: invited_at?.toISOString() ?? null,
  }));
}

/** How long somebody who was invited stays on the list. */
const keptDays = 90;

/** Makes room: deletes whom an invitation was sent to long ago. Returns how many. */
export async function deleteInvited(db: Db): Promise<number> {
  const { numDeletedRows } = await db
    .deleteFrom("waitlist_entry")
    .where("invited_at", "<", sql<Date>`now() - ${keptDays} * interval '1 day'`)
    .executeTakeFirst();
  return Number(numDeletedRows);
}
