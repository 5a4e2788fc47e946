import type { CreatePlanInput, UpdatePlanInput } from "@svc/proto";
import type { Db } from "../../stores/db/pool.ts";
import type { Plan } from "../../stores/db/tables.ts";
import { Refused } from "../../stores/refused.ts";
import { enqueueApplyLimits } from "./apply-limits.ts";
import { givesSameDatabases, reconcileDatabases } from "./reconcile-databases.ts";
import { givesSameRoom, planColumns } from "./rules.ts";
import {
  defaultPlan,
  deletePlan,
  insertPlan,
  isPlanInUse,
  isSlugTaken,
  lockPlan,
  lockPlans,
  unsetDefault,
  updatePlan,
} from "./store.ts";

/**
 * Creates a plan that is like the default one where `input` says nothing; with `isDefault` it takes its place, in the
 * caller's transaction. Throws SLUG_CONFLICT.
 */
export async function createPlan(tx: Db, newId: string, input: CreatePlanInput): Promise<Plan> {
  await lockPlans(tx);
  const before = await defaultPlan(tx);
  const { id: _, created_at: __, updated_at: ___, ...base } = before;
  const { isDefault = false } = input;
  if (isDefault) await unsetDefault(tx);
  const values = { ...base, ...planColumns({ ...input, isDefault }), slug: input.slug, name: input.name, id: newId };
  const plan = await insertPlan(tx, values);
  if (plan === null) throw new Refused("SLUG_CONFLICT");
  if (isDefault && !givesSameRoom(before, plan)) await enqueueApplyLimits(tx, { planId: plan.id });
  if (isDefault && !givesSameDatabases(before, plan)) await reconcileDatabases(tx, { planId: plan.id });
  return plan;
}

/**
 * Changes the fields that `input` has and brings their containers what they get from now on. Null when there is no
 * such plan. Throws SLUG_CONFLICT, and PLAN_IS_DEFAULT for taking the default away without another one.
 */
export async function changePlan(tx: Db, id: string, input: UpdatePlanInput): Promise<Plan | null> {
  await lockPlans(tx);
  const plan = await lockPlan(tx, id);
  if (plan === null) return null;
  if (plan.is_default && input.isDefault === false) {
    throw new Refused("PLAN_IS_DEFAULT", "Make another plan the default instead.");
  }
  if (input.slug !== undefined && (await isSlugTaken(tx, input.slug, id))) throw new Refused("SLUG_CONFLICT");
  const becomesDefault = input.isDefault === true && !plan.is_default;
  const before = becomesDefault ? await defaultPlan(tx) : plan;
  if (becomesDefault) await unsetDefault(tx);
  const changed = await updatePlan(tx, id, planColumns(input));
  // An account that was never given a plan has another one with the default.
  const isNew = (givesSame: (a: Plan, b: Plan) => boolean) => !givesSame(plan, changed) || !givesSame(before, changed);
  if (isNew(givesSameRoom)) await enqueueApplyLimits(tx, { planId: id });
  if (isNew(givesSameDatabases)) await reconcileDatabases(tx, { planId: id });
  return changed;
}

/** Null when there is no such plan. Throws PLAN_IS_DEFAULT and PLAN_IN_USE. */
export async function removePlan(tx: Db, id: string): Promise<Plan | null> {
  await lockPlans(tx);
  const plan = await lockPlan(tx, id);
  if (plan === null) return null;
  if (plan.is_default) throw new Refused("PLAN_IS_DEFAULT");
  if (await isPlanInUse(tx, id)) throw new Refused("PLAN_IN_USE");
  await deletePlan(tx, id);
  return plan;
}
