import type { Db } from "../db/pool.ts";
import type { Plan } from "../db/tables.ts";

/** The plan of a user: the one that an administrator gave, else the default one. */
export async function planOfUser(db: Db, userId: string): Promise<Plan> {
  return db
    .selectFrom("plan")
    .selectAll("plan")
    .leftJoin("account", (join) => join.onRef("account.plan_id", "=", "plan.id").on("account.user_id", "=", userId))
    .where((where) => where.or([where("account.user_id", "is not", null), where("plan.is_default", "=", true)]))
    .orderBy((order) => order("account.user_id", "is not", null), "desc")
    .limit(1)
    .executeTakeFirstOrThrow();
}
