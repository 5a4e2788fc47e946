import { planOfUser } from "../../../identity/plans/of-user.ts";
import type { Db } from "../../../stores/db/pool.ts";
import { Refused } from "../../../stores/refused.ts";
import type { DomainPlan, Refusal } from "../rules.ts";

export function throwIf(refusal: Refusal | null): void {
  if (refusal !== null) throw new Refused(refusal.code, refusal.message);
}

/** What the plan of a project's owner says of custom domains. */
export async function loadDomainPlan(db: Db, ownerId: string): Promise<DomainPlan> {
  const plan = await planOfUser(db, ownerId);
  return {
    // What is paid for has domains and databases alike, so a plan without the one has not the other.
    maxCustomDomains: plan.max_databases === 0 ? 0 : plan.max_custom_domains,
    ...{ previewsEnabled: plan.previews_enabled, devSyncEnabled: plan.dev_sync_enabled },
  };
}
