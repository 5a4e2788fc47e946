import { sql } from "kysely";
import type { Db } from "../../stores/db/pool.ts";
import type { NewPlan, Plan } from "../../stores/db/tables.ts";

/**
 * A plan with how many users have it; the default one is also that of everybody who was never given any. Users who are
 * being deleted have none.
 */
export interface CountedPlan extends Plan {
  user_count: number;
}

const counted = (db: Db) =>
  db
    .selectFrom("plan")
    .selectAll("plan")
    .select(
      sql<number>`(
        select count(*) from auth."user" u left join account on account.user_id = u.id
        where (account.plan_id = plan.id or (account.plan_id is null and plan.is_default))
          and not exists (select from user_deletion where user_id = u.id))`.as("user_count"),
    );

/** The default first, then by slug. */
export const listPlans = (db: Db): Promise<CountedPlan[]> =>
  counted(db).orderBy("plan.is_default", "desc").orderBy("plan.slug").execute();

export const getCountedPlan = (db: Db, id: string): Promise<CountedPlan> =>
  counted(db).where("plan.id", "=", id).executeTakeFirstOrThrow();

/**
 * Lets nobody else create, change or delete plans until the transaction ends: which one is the default concerns two
 * rows. Reading plans, and giving them to users, goes on.
 */
export const lockPlans = (tx: Db) => sql`lock table plan in share row exclusive mode`.execute(tx);

/**
 * The plan, held until the transaction ends also against whoever is about to give it to a user; null when there is
 * none.
 */
export async function lockPlan(tx: Db, id: string): Promise<Plan | null> {
  const plan = await tx.selectFrom("plan").selectAll().where("id", "=", id).forUpdate().executeTakeFirst();
  return plan ?? null;
}

/** Needs the plans locked. */
export const defaultPlan = (tx: Db): Promise<Plan> =>
  tx.selectFrom("plan").selectAll().where("is_default", "=", true).executeTakeFirstOrThrow();

/** Takes the default away from whichever plan has it. Needs the plans locked, and another default before the end. */
export const unsetDefault = (tx: Db) =>
  tx
    .updateTable("plan")
    .set({ is_default: false, updated_at: sql<Date>`now()` })
    .where("is_default", "=", true)
    .execute();

/** Null when the slug is taken. */
export async function insertPlan(tx: Db, values: NewPlan): Promise<Plan | null> {
  const plan = await tx
    .insertInto("plan")
    .values(values)
    .onConflict((conflict) => conflict.column("slug").doNothing())
    .returningAll()
    .executeTakeFirst();
  return plan ?? null;
}

/** Whether another plan than `id` has the slug. Exact while the plans are locked. */
export async function isSlugTaken(tx: Db, slug: string, id: string): Promise<boolean> {
  const other = await tx
    .selectFrom("plan")
    .select("id")
    .where("slug", "=", slug)
    .where("id", "!=", id)
    .executeTakeFirst();
  return other !== undefined;
}

export const updatePlan = (tx: Db, id: string, change: Partial<NewPlan>): Promise<Plan> =>
  tx
    .updateTable("plan")
    .set({ ...change, updated_at: sql<Date>`now()` })
    .where("id", "=", id)
    .returningAll()
    .executeTakeFirstOrThrow();

/** Whether a user was given the plan who is not being deleted. Exact while the plan is locked. */
export async function isPlanInUse(tx: Db, id: string): Promise<boolean> {
  const { rows } = await sql`
    select from account where plan_id = ${id}
      and not exists (select from user_deletion where user_id = account.user_id) limit 1`.execute(tx);
  return rows.length > 0;
}

/** With what says that somebody who is being deleted has it. Needs a plan that is not in use. */
export async function deletePlan(tx: Db, id: string): Promise<void> {
  await tx.deleteFrom("account").where("plan_id", "=", id).execute();
  await tx.deleteFrom("plan").where("id", "=", id).execute();
}
