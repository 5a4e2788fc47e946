import type { Channel } from "@svc/proto";
import type { Caller } from "../../../http/caller.ts";
import { planOfUser } from "../../../identity/plans/of-user.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Branch, Plan, Project } from "../../../stores/db/tables.ts";
import { Refused } from "../../../stores/refused.ts";
import { getProject } from "../../projects/store.ts";
import { refuseSuspended } from "../../projects/suspended.ts";
import { heldRefusal } from "../changes/rules.ts";
import { findOpenChange } from "../changes/store.ts";
import { BranchNotReady } from "../ready-branch.ts";
import { planRefusal, type Refusal, useRefusal } from "../rules.ts";
import { findBranch } from "../store.ts";

/** What `getDatabaseProject` may refuse with besides NOT_FOUND. */
export const projectErrors = ["PLAN_FEATURE_UNAVAILABLE", "SUSPENDED"] as const;
/** The same of `getReadyBranch`. */
export const branchErrors = [...projectErrors, "DATABASE_PROVISIONING", "DATABASE_NOT_READY"] as const;

export function throwIf(refusal: Refusal | null): void {
  if (refusal !== null) throw new Refused(refusal.code, refusal.message);
}

/**
 * The caller's project, if its databases may be used. Throws NOT_FOUND, PLAN_FEATURE_UNAVAILABLE for a plan without any, and
 * SUSPENDED. `lock` keeps it as it is until the transaction ends.
 */
export async function getDatabaseProject(
  db: Db,
  caller: Pick<Caller, "userId" | "projectIds">,
  id: string,
  options: { lock?: boolean } = {},
): Promise<{ project: Project; plan: Plan }> {
  const project = await getProject(db, caller, id, options);
  const plan = await planOfUser(db, project.owner_id);
  throwIf(planRefusal(plan.max_databases));
  refuseSuspended(project);
  return { project, plan };
}

/** The branch of a channel, if it can be used now. Throws as `getDatabaseProject`, and DATABASE_PROVISIONING and DATABASE_NOT_READY. */
export async function getReadyBranch(
  db: Db,
  caller: Pick<Caller, "userId" | "projectIds">,
  { id, channel }: { id: string; channel: Channel },
  options: { lock?: boolean } = {},
): Promise<{ project: Project; plan: Plan; branch: Branch }> {
  const { project, plan } = await getDatabaseProject(db, caller, id, options);
  const branch = await findBranch(db, id, channel);
  const refusal = useRefusal(branch?.status ?? null);
  if (branch === null) throw new Refused("NOT_FOUND", refusal?.message);
  if (refusal !== null) throw new BranchNotReady(refusal.code, refusal.message);
  const change = await findOpenChange(db, branch.id);
  const held = heldRefusal(change);
  if (held !== null) throw new BranchNotReady(held.code, held.message);
  return { project, plan, branch };
}
