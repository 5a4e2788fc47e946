import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";

const deliveriesKeptDays = 7;
const alertsKeptDays = 30;

/**
 * Deletes deliveries that ended long ago, alerts that were over long ago, and those of a month that is over: nobody says that
 * a month's quota is less than nearly used when the month ends. Returns how many.
 */
export async function forgetAlerts(db: Db): Promise<number> {
  const deliveries = await db
    .deleteFrom("alert_delivery")
    .where("ended_at", "<", sql<Date>`now() - ${deliveriesKeptDays} * interval '1 day'`)
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
  return (
    Number(sites.numAffectedRows ?? 0n) +
    Number(deliveries.numDeletedRows + alerts.numDeletedRows + months.numDeletedRows)
  );
}
