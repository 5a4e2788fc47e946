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
  return Number(deliveries.numDeletedRows + alerts.numDeletedRows + months.numDeletedRows);
}
