import { sql } from "kysely";
import { deleteExpired } from "../auth/expire.ts";
import type { Db } from "../db/pool.ts";
import { expireLogs } from "../deployments/expire-logs.ts";
import { releaseRedirects } from "../deployments/hosts.ts";
import { expireIdle } from "../deployments/remove/expire.ts";
import { resumeRemovals } from "../deployments/remove/remove.ts";
import type { Log } from "../log.ts";

/** How long what is only of use for looking back is kept. */
const keptDays = { work: 7, samples: 30, acceptedDeploys: 1, logs: 30 } as const;

export interface HouseRules {
  /** After so many days without a deployment preview and dev channels are given up; 0: never. */
  previewIdleDays: number;
}

/** Deletes what has had its time. Safe to repeat and to run anywhere; the leader does it, so that it is done once. */
export async function keepHouse(db: Db, log: Log, { previewIdleDays }: HouseRules): Promise<void> {
  const expired = await deleteExpired(db);
  const work = await db
    .deleteFrom("work_item")
    .where("state", "in", ["done", "failed"])
    .where("finished_at", "<", sql<Date>`now() - ${keptDays.work} * interval '1 day'`)
    .executeTakeFirst();
  const samples = await db
    .deleteFrom("resource_sample")
    .where("at", "<", sql<Date>`now() - ${keptDays.samples} * interval '1 day'`)
    .executeTakeFirst();
  const accepted = await db
    .deleteFrom("accepted_deploy")
    .where("at", "<", sql<Date>`now() - ${keptDays.acceptedDeploys} * interval '1 day'`)
    .executeTakeFirst();
  const hosts = await releaseRedirects(db);
  const counts = {
    expired,
    work: Number(work.numDeletedRows),
    samples: Number(samples.numDeletedRows),
    acceptedDeploys: Number(accepted.numDeletedRows),
    hosts,
    channels: await expireIdle(db, log, previewIdleDays),
    removals: await resumeRemovals(db),
    logs: await expireLogs(db, keptDays.logs),
  };
  if (Object.values(counts).some((count) => count > 0)) log.info(counts, "housekeeping");
}
