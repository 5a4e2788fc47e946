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
