import { databaseClock } from "../../../stores/db/clock.ts";
import type { Db } from "../../../stores/db/pool.ts";
import { monthEnd, standing } from "./rules.ts";
import { findOwner } from "./store.ts";

/**
 * Until when a project of the user that an administrator resumes now is not suspended for the quota: for the rest of the
 * month when it is used up, or the next look at it would take back what the administrator did. Null: as always.
 */
export async function waiverOf(tx: Db, userId: string): Promise<Date | null> {
  const now = await databaseClock(tx);
  const owner = await findOwner(tx, now, userId);
  return owner !== null && standing(owner.allowance, owner.use) === "over" ? monthEnd(now) : null;
}
