import { sql } from "kysely";
import type { Db } from "../../../stores/db/pool.ts";

/**
 * Milliseconds since the item first saw that no edge sends requests any more. Kept with the item, so that a restart
 * goes on counting, and told by the clock of Postgres: another replica's may be an hour ahead.
 */
export async function drainedForMs(db: Db, itemId: number): Promise<number> {
  const { forMs } = await db
    .selectFrom("work_item")
    .where("id", "=", itemId)
    .select(
      sql<number | null>`(extract(epoch from now() - (payload->>'drainedAt')::timestamptz) * 1000)::int8`.as("forMs"),
    )
    .executeTakeFirstOrThrow();
  if (forMs !== null) return forMs;
  await db
    .updateTable("work_item")
    .set({ payload: sql`jsonb_set(payload, '{drainedAt}', to_jsonb(now()))` })
    .where("id", "=", itemId)
    .execute();
  return 0;
}
