import type { AuditQuery } from "@svc/proto";
import { sql } from "kysely";
import type { Db } from "../../../stores/db/pool.ts";
import { microsOf, type Place, placeOf, serial, timeOf } from "../place.ts";

export interface AuditLine extends Place {
  at: Date;
  userId: string | null;
  userEmail: string | null;
  credential: "session" | "key" | null;
  tokenId: string | null;
  action: string;
  target: string | null;
  address: string | null;
  requestId: string | null;
  detail: Record<string, unknown>;
}

/** One line more than the limit, newest first. Each filter has an index that is in that order. */
export async function readAudit(
  db: Db,
  { user, action, target, since, until, limit, cursor }: AuditQuery,
): Promise<AuditLine[]> {
  const after = placeOf(cursor, serial);
  const wanted = [
    ...(user === undefined
      ? []
      : [user.includes("@") ? sql`user_email = ${user.toLowerCase()}` : sql`user_id = ${user}`]),
    // No character of an action means anything to LIKE.
    ...(action === undefined ? [] : [sql`action like ${`${action}%`}`]),
    ...(target === undefined ? [] : [sql`target = ${target}`]),
    ...(since === undefined ? [] : [sql`at >= ${since}::timestamptz`]),
    ...(until === undefined ? [] : [sql`at < ${until}::timestamptz`]),
    ...(after === null ? [] : [sql`(at, id) < (${timeOf(after)}, ${after.id}::bigint)`]),
  ];
  const where = wanted.length === 0 ? sql`` : sql`where ${sql.join(wanted, sql` and `)}`;
  const { rows } = await sql<AuditLine>`
    select id::text as id, ${microsOf(sql`at`)} as micros, at, user_id as "userId", user_email as "userEmail", credential,
      token_id as "tokenId", action, target, address, request_id as "requestId", detail
    from audit ${where} order by audit.at desc, audit.id desc limit ${limit + 1}`.execute(db);
  return rows;
}
