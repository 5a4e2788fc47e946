import type { Caller } from "../../http/caller.ts";
import { refuseLimited } from "../../http/limited.ts";
import { planOfUser } from "../../identity/plans/of-user.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Plan } from "../../stores/db/tables.ts";
import { Refused } from "../../stores/refused.ts";

/**
 * The plan of somebody who may push images of their own. Throws FORBIDDEN_SCOPE, EMAIL_NOT_VERIFIED and
 * PLAN_FEATURE_UNAVAILABLE.
 */
export async function requireMayPush(db: Db, caller: Caller): Promise<Plan> {
  // What is pushed is there for every project of the account.
  refuseLimited(caller, "push images of the account");
  if (!caller.emailVerified) throw new Refused("EMAIL_NOT_VERIFIED");
  const plan = await planOfUser(db, caller.userId);
  if (plan.max_image_mb === 0)
    throw new Refused("PLAN_FEATURE_UNAVAILABLE", "The plan does not include container images.");
  return plan;
}
