import type { Log } from "../../../log.ts";
import type { Db } from "../../../stores/db/pool.ts";
import { settleJobs } from "./change.ts";
import { arePausesRight } from "./rules.ts";
import { listPauses, type ProjectPauses } from "./store.ts";

/** What rounds over pauses ask of Postgres. */
export interface JobPauseRows {
  /** Every project with jobs that are not retired. */
  list(): Promise<ProjectPauses[]>;
  /** Brings all pauses of a project's jobs to where they should be, at one moment. Returns how many jobs changed. */
  settle(projectId: string): Promise<number>;
}

export const jobPauseRows = (db: Db): JobPauseRows => ({
  list: () => listPauses(db),
  settle: (projectId) => db.transaction().execute((tx) => settleJobs(tx, projectId)),
});

/**
 * Brings pauses to where they should be, whoever changed what: a plan that everybody has is changed by one row, which knows
 * nothing of jobs. Returns how many jobs changed.
 */
export async function settlePauses({ rows, log }: { rows: JobPauseRows; log: Log }): Promise<number> {
  let changed = 0;
  for (const pauses of await rows.list()) {
    if (arePausesRight(pauses, pauses)) continue;
    const { projectId } = pauses;
    try {
      changed += await rows.settle(projectId);
    } catch (error) {
      // The others have their turn all the same, and this one in the next round.
      log.warn({ err: error, projectId }, "pauses of scheduled jobs could not be settled");
    }
  }
  return changed;
}
