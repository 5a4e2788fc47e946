import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";

/** Longer than any limit of a CA looks back. */
const spentDays = 8;
/** Of names that nobody wants: they may be wanted again before, and a CA gives few certificates of one name. */
const unwantedDays = 30;

const daysAgo = (days: number) => sql<Date>`now() - ${days} * interval '1 day'`;

/** Deletes orders and certificates that have no use any more. Returns how many. */
export async function forgetCertificates(db: Db): Promise<number> {
  const orders = await db.deleteFrom("acme_order").where("at", "<", daysAgo(spentDays)).executeTakeFirst();
  const certificates = await db
    .deleteFrom("certificate")
    .where("order_url", "is", null)
    // One that is wanted has another attempt before it.
    .where("next_at", "<", daysAgo(unwantedDays))
    .where((where) => where.or([where("not_after", "is", null), where("not_after", "<", daysAgo(unwantedDays))]))
    .executeTakeFirst();
  return Number(orders.numDeletedRows) + Number(certificates.numDeletedRows);
}
