import { databaseProxyGoneMax } from "@svc/proto/database-proxy";
import type { Db } from "../../stores/db/pool.ts";
import { uuid } from "../../stores/db/uuid.ts";

/**
 * Which of these daemons were fenced or removed. One that there is no row of is not among them: after a restore from
 * backup that may be control's fault, and what it runs is not to be stopped for it.
 */
export async function listGoneNodes(db: Db, ids: readonly string[]): Promise<string[]> {
  const known = ids.filter((id) => uuid.test(id));
  if (known.length === 0) return [];
  const rows = await db
    .selectFrom("node")
    .select("id")
    .where("id", "in", known)
    .where("lifecycle", "!=", "active")
    .execute();
  return rows.map(({ id }) => id);
}

/** The clock of a machine that is shown a certificate may be behind control's. */
const clocksMs = 86_400_000;

/** The nodes and edges that were fenced or removed and have a certificate that may be valid yet, those first that have it longest. */
export async function listGoneWithCertificate(db: Db, now: Date): Promise<string[]> {
  const rows = await db
    .selectFrom("node")
    .select("id")
    .where("lifecycle", "!=", "active")
    .where("certificate_expires_at", ">", new Date(now.getTime() - clocksMs))
    .orderBy("certificate_expires_at", "desc")
    .orderBy("id")
    .limit(databaseProxyGoneMax)
    .execute();
  return rows.map(({ id }) => id);
}
