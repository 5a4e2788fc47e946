import { limits } from "@svc/proto";
import { sql } from "kysely";
import type { Db } from "../../../stores/db/pool.ts";

/** In one round; the next hour goes on. */
const batchSize = 20_000;

/** Deletes lines that have been kept for long enough, the oldest first. The database refuses any other. Returns how many. */
export async function expireAudit(db: Db): Promise<number> {
  const { numAffectedRows } = await sql`
    delete from audit where id in (
      select id from audit where at < now() - ${limits.auditKeptDays} * interval '1 day' order by at limit ${batchSize})`.execute(
    db,
  );
  return Number(numAffectedRows ?? 0n);
}
