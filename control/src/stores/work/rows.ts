import type { Db } from "../db/pool.ts";
import {
  type Claim,
  type ClaimedWork,
  claimAll,
  finishWork,
  listDueKinds,
  reapWork,
  renewAll,
  type WorkOutcome,
} from "./queue.ts";

/** What workers ask of the queue. Each call is whole by itself, and may be made by any number of workers at once. */
export interface WorkRows {
  /** Leases due items whose keys are idle, the oldest first. */
  claimAll(claim: Claim): Promise<ClaimedWork[]>;
  /** Extends leases; returns the ids of those that were not lost. */
  renewAll(
    items: readonly Pick<ClaimedWork, "id" | "attempt">[],
    owner: string,
    leaseMs: number,
  ): Promise<ReadonlySet<number>>;
  /** Records how an attempt ended, and announces what waited for its key; false when the lease was lost meanwhile. */
  finish(item: ClaimedWork, owner: string, outcome: WorkOutcome): Promise<boolean>;
  /** Gives items whose leases are over back to the queue. Returns how many. */
  reap(): Promise<number>;
  /** Of `kinds`, those of which something is due. */
  listDueKinds(kinds: readonly string[]): Promise<readonly string[]>;
}

export const workRows = (db: Db): WorkRows => ({
  claimAll: (claim) => claimAll(db, claim),
  renewAll: (items, owner, leaseMs) => renewAll(db, items, owner, leaseMs),
  finish: (item, owner, outcome) => finishWork(db, item, owner, outcome),
  reap: () => reapWork(db),
  listDueKinds: (kinds) => listDueKinds(db, kinds),
});
