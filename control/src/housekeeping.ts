import { sql } from "kysely";
import { expireResourceHours, expireSamples, foldSamples } from "./fleet/agents/fold-samples.ts";
import { forgetCertificates } from "./fleet/certificates/forget.ts";
import { expireNodeEvents } from "./fleet/nodes/events/store.ts";
import { expireTraffic } from "./fleet/traffic/expire.ts";
import { deleteExpired } from "./identity/auth/expire.ts";
import { enqueueOutdated } from "./identity/plans/apply-limits.ts";
import type { Log } from "./log.ts";
import type { Db } from "./stores/db/pool.ts";
import { resumeWork } from "./stores/work/resume.ts";
import { expireAudit } from "./tenants/admin/audit/expire.ts";
import { forgetAlerts } from "./tenants/alerts/forget.ts";
import { forgetChanges } from "./tenants/databases/changes/forget.ts";
import { forgetCopies } from "./tenants/databases/copies/forget.ts";
import { forgetVolumes } from "./tenants/databases/volumes/forget.ts";
import { expireLogs } from "./tenants/deployments/logs/expire.ts";
import { expireIdle } from "./tenants/deployments/remove/expire.ts";
import { forgetScreenshots } from "./tenants/deployments/screenshots/forget.ts";
import { releaseRedirects } from "./tenants/hosts/hosts.ts";
import { forgetJobs } from "./tenants/jobs/definitions/forget.ts";
import { expireJobRuns } from "./tenants/jobs/runs/expire.ts";

/** How long what is only of use for looking back is kept. */
const keptDays = { work: 7, acceptedDeploys: 1, logs: 30, traffic: 400, resourceHours: 90 } as const;
/** After that there are hours of them. */
const samplesKeptHours = 24;

export interface HouseRules {
  /** After so many days without a deployment preview and dev channels are given up; 0: never. */
  previewIdleDays: number;
}

const daysAgo = (days: number) => sql<Date>`now() - ${days} * interval '1 day'`;

/**
 * Deletes what has had its time, takes up what was given up, and bounds what is not. Safe to repeat and to run anywhere; the leader does
 * it, so that it is done once. A part that fails keeps none of the others from its turn, and has its own next time.
 */
export async function keepHouse(db: Db, log: Log, { previewIdleDays }: HouseRules): Promise<void> {
  const parts: Record<string, () => Promise<number>> = {
    expired: () => deleteExpired(db),
    // Before old work is deleted: what was promised does not become old.
    resumed: () => resumeWork(db),
    work: () => deleteOldWork(db),
    outdated: () => enqueueOutdated(db),
    // In this order: what was not folded would be lost.
    async samples() {
      await foldSamples(db);
      return expireSamples(db, samplesKeptHours);
    },
    resources: () => expireResourceHours(db, keptDays.resourceHours),
    acceptedDeploys: () => deleteOldAccepted(db),
    hosts: () => releaseRedirects(db),
    channels: () => expireIdle(db, log, previewIdleDays),
    logs: () => expireLogs(db, keptDays.logs),
    jobRuns: () => expireJobRuns(db),
    traffic: () => expireTraffic(db, keptDays.traffic),
    audit: () => expireAudit(db),
    copies: () => forgetCopies(db),
    volumes: () => forgetVolumes(db),
    changes: () => forgetChanges(db),
    screenshots: () => forgetScreenshots(db),
    nodeEvents: () => expireNodeEvents(db),
    certificates: () => forgetCertificates(db),
    alerts: () => forgetAlerts(db),
    jobs: () => forgetJobs(db),
  };
  const counts: Record<string, number> = {};
  for (const [part, keep] of Object.entries(parts)) {
    try {
      counts[part] = await keep();
    } catch (error) {
      log.warn({ err: error, part }, "a part of housekeeping failed");
    }
  }
  if (Object.values(counts).some((count) => count > 0)) log.info(counts, "housekeeping");
}

async function deleteOldWork(db: Db): Promise<number> {
  const { numDeletedRows } = await db
    .deleteFrom("work_item")
    .where("state", "in", ["done", "failed"])
    .where("finished_at", "<", daysAgo(keptDays.work))
    .executeTakeFirst();
  return Number(numDeletedRows);
}

async function deleteOldAccepted(db: Db): Promise<number> {
  const { numDeletedRows } = await db
    .deleteFrom("accepted_deploy")
    .where("at", "<", daysAgo(keptDays.acceptedDeploys))
    .executeTakeFirst();
  return Number(numDeletedRows);
}
