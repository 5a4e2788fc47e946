import type { Log } from "../../../log.ts";
import type { Db } from "../../../stores/db/pool.ts";
import { settleJobs } from "./change.ts";
import { arePausesRight } from "./rules.ts";
import { listPauses } from "./store.ts";

/**
 * Brings pauses to where they should be, whoever changed what: a plan that everybody has is changed by one row, which knows
 * nothing of jobs. Returns how many jobs changed.
 */
export async function settlePauses({ db, log }: { db: Db; log: Log }): Promise<number> {
  let changed = 0;
  for (const pauses of await listPauses(db)) {
    if (arePausesRight(pauses, pauses)) continue;
    const { projectId } = pauses;
    try {
      changed += await db.transaction().execute((tx) => settleJobs(tx, projectId));
    } catch (error) {
      // The others have their turn all the same, and this one in the next round.
      log.warn({ err: error, projectId }, "pauses of scheduled jobs could not be settled");
    }
  }
  return changed;
}
