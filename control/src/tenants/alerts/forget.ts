import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";

const deliveriesKeptDays = 7;
const alertsKeptDays = 30;
/** Whoever deployed for the first time, and failed, has so long to see it. */
const givenUpKeptDays = 1;

/**
 * Deletes deliveries that ended long ago, alerts that were over long ago, and those that nobody will say to be over: of a month
 * that ended, of what does not run any more, and of channels that were given up. Returns how many.
 */
export async function forgetAlerts(db: Db): Promise<number> {
  const deliveries = await db
    .deleteFrom("alert_delivery")
    // A delivery is tried for a day: an older one is of a webhook that is not called any more.
    .where(sql<boolean>`coalesce(ended_at, created_at) < now() - ${deliveriesKeptDays} * interval '1 day'`)
    .executeTakeFirst();
  const alerts = await db
    .deleteFrom("alert")
    .where("is_on", "=", false)
    .where("told_since", "is", null)
    .where("changed_at", "<", sql<Date>`now() - ${alertsKeptDays} * interval '1 day'`)
    .executeTakeFirst();
  const months = await db
    .deleteFrom("alert")
    .where("event", "=", "quotaNear")
    .where("subject", "<", sql<string>`to_char(now() at time zone 'UTC', 'YYYY-MM')`)
    .executeTakeFirst();
  // A site that was stopped or removed while it was down is not down any more.
  const sites = await sql`
    delete from alert where event = 'siteDown' and is_on and not exists (
      select from deployment join task on task.owner_id = deployment.id
      where deployment.project_id = alert.project_id and deployment.status = 'running'
        and task.desired = 'running' and task.trouble is not null
        and alert.subject = deployment.channel || coalesce('/' || nullif(deployment.pr_number, 0), ''))`.execute(db);
  const channels = await sql`
    delete from alert where event = 'deployFailed' and subject <> 'production'
      and changed_at < now() - ${givenUpKeptDays} * interval '1 day'
      and not exists (
        select from site_host where site_host.project_id = alert.project_id
          and alert.subject = site_host.channel || coalesce('/' || nullif(site_host.pr_number, 0), ''))`.execute(db);
  return (
    Number((sites.numAffectedRows ?? 0n) + (channels.numAffectedRows ?? 0n)) +
    Number(deliveries.numDeletedRows + alerts.numDeletedRows + months.numDeletedRows)
  );
}
