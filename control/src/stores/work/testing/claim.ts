import type { Db } from "../../db/pool.ts";
import { type Claim, type ClaimedWork, claimAll } from "../queue.ts";

/** The oldest due item whose key is idle, leased; null when there is none. */
export async function claimWork(db: Db, asked: Omit<Claim, "limit">): Promise<ClaimedWork | null> {
  return (await claimAll(db, { ...asked, limit: 1 }))[0] ?? null;
}
