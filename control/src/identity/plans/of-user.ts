import { type RawBuilder, sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import type { Plan } from "../../stores/db/tables.ts";

/** The plan of a user: the one that an administrator gave, else the default one. */
export const planOfUser = (db: Db, userId: string): Promise<Plan> => planQuery(db, userId).executeTakeFirstOrThrow();

const planQuery = (db: Db, userId: string) =>
  db
    .selectFrom("plan")
    .selectAll("plan")
    .leftJoin("account", (join) => join.onRef("account.plan_id", "=", "plan.id").on("account.user_id", "=", userId))
    .where((where) => where.or([where("account.user_id", "is not", null), where("plan.is_default", "=", true)]))
    .orderBy((order) => order("account.user_id", "is not", null), "desc")
    .limit(1);

/** The id of the plan of a `project`'s owner, in a query that has the owner's `account` joined to it if there is one. */
export const planOfOwner: RawBuilder<string> = sql`coalesce(account.plan_id, (select id from plan where is_default))`;

/** The plans of the owners of these projects, by project. */
export async function plansOfProjects(db: Db, projectIds: readonly string[]): Promise<Map<string, Plan>> {
  const rows = await db
    .selectFrom("project")
    .leftJoin("account", "account.user_id", "project.owner_id")
    .innerJoin("plan", (join) => join.on("plan.id", "=", planOfOwner))
    .selectAll("plan")
    .select("project.id as of_project")
    .where("project.id", "=", sql<string>`any(${projectIds}::uuid[])`)
    .execute();
  return new Map(rows.map(({ of_project, ...plan }) => [of_project, plan]));
}

/** More changes of plan than this while one transaction waits for a lock are no accident. */
const triesMax = 5;

/**
 * The same, for what is made by it in this transaction: whoever changes the plan, or gives the user another one, does
 * so after it, and then finds what was made.
 */
export async function holdPlanOfUser(tx: Db, userId: string): Promise<Plan> {
  await tx.selectFrom("auth.user").select("id").where("id", "=", userId).forShare().execute();
  for (let tries = 0; tries < triesMax; tries += 1) {
    const plan = await planQuery(tx, userId).forShare("plan").executeTakeFirst();
    // The lock may have been waited for while another one became the default.
    if (plan !== undefined && (await planOfUser(tx, userId)).id === plan.id) return plan;
  }
  throw new Error("the user's plan keeps changing");
}
