import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import { deleteOldInvites } from "../invites/store.ts";
import { deleteInvited } from "../invites/waitlist.ts";
import { deleteFullBuckets } from "../limits/attempts.ts";

/** How long an Idempotency-Key is remembered; see http/idempotency.ts. */
const idempotencyHours = 24;

/**
 * Deletes what has run out and is of no more use: sessions, device codes, verification tokens, remembered
 * requests, invitations, counted attempts. Nobody relies on it: every reader checks the time itself. Returns how many rows went.
 */
export async function deleteExpired(db: Db): Promise<number> {
  const statements = [
    sql`delete from auth."session" where "expiresAt" < now()`,
    sql`delete from auth."deviceCode" where "expiresAt" < now()`,
    sql`delete from auth."verification" where "expiresAt" < now()`,
    sql`delete from claim_link where expires_at < now()`,
    sql`delete from idempotency where created_at < now() - ${idempotencyHours} * interval '1 hour'`,
  ];
  let count = (await deleteOldInvites(db)) + (await deleteInvited(db)) + (await deleteFullBuckets(db));
  for (const statement of statements) count += Number((await statement.execute(db)).numAffectedRows ?? 0n);
  return count;
}
