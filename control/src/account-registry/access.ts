import type { Caller } from "../auth/caller.ts";
import { refuseLimited } from "../auth/limited.ts";
import type { Db } from "../db/pool.ts";
import type { Plan } from "../db/tables.ts";
import { ApiError } from "../http/errors.ts";
import { planOfUser } from "../plans/of-user.ts";

/**
 * The plan of somebody who may push images of their own. Throws FORBIDDEN_SCOPE, EMAIL_NOT_VERIFIED and
 * PLAN_FEATURE_UNAVAILABLE.
 */
export async function requireMayPush(db: Db, caller: Caller): Promise<Plan> {
  // What is pushed is there for every project of the account.
  refuseLimited(caller, "push images of the account");
  if (!caller.emailVerified) throw new ApiError("EMAIL_NOT_VERIFIED");
  const plan = await planOfUser(db, caller.userId);
  if (plan.max_image_mb === 0)
    throw new ApiError("PLAN_FEATURE_UNAVAILABLE", { message: "The plan does not include container images." });
  return plan;
}
