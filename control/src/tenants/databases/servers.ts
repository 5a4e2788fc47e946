import type { DatabaseEngine } from "@svc/proto";
import { removeTasks } from "../../fleet/tasks/change.ts";
import { type DatabaseTaskSpec, databaseTask } from "../../fleet/tasks/kinds/database.ts";
import type { NewTask } from "../../fleet/tasks/kinds/kind.ts";
import { insertTask } from "../../fleet/tasks/store.ts";
import { holdPlanOfUser } from "../../identity/plans/of-user.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Branch, Plan } from "../../stores/db/tables.ts";
import { holdsBranch } from "./changes/store.ts";
import { type ServerPlan, serverSpecOf, tenantFacts } from "./facts.ts";
import { hasOutgrown, serverResources, serverStart } from "./limits.ts";
import { isToBeReadOnly } from "./steps.ts";

/** What is asked for: a server where the branch's data is, or anywhere while there is none. */
export const serverTask = (
  branch: Branch,
  plan: ServerPlan,
  images: Readonly<Record<DatabaseEngine, string>>,
  restore: DatabaseTaskSpec["restore"] = null,
): NewTask<DatabaseTaskSpec> =>
  databaseTask(branch, {
    ...serverResources(branch.engine, plan),
    image: images[branch.engine],
    ...serverStart(plan),
    restore,
    nodeSelector: plan.node_selector,
    readOnly: isToBeReadOnly(tenantFacts(branch, plan)),
  });

/**
 * Asks for a server of the branch, in the caller's transaction.
 *
 * @param options.restore what its volume begins with, as long as that has no data
 */
export const startServer = (
  tx: Db,
  branch: Branch,
  plan: Plan,
  images: Readonly<Record<DatabaseEngine, string>>,
  { restore }: { restore?: DatabaseTaskSpec["restore"] } = {},
): Promise<string> =>
  insertTask(tx, { ...branch, pr_number: null }, serverTask(branch, plan, images, restore), { replica: 0 });

/**
 * Ends the server of a branch that was started with less than its owner's plan gives by now, and that only a start changes. Another one
 * takes its place. In the caller's transaction, which holds plan and branch. False: it has as much, or is not to be touched now.
 */
export async function removeOutgrown(tx: Db, branch: Branch, plan: Plan): Promise<boolean> {
  if (branch.status !== "ready" || (await holdsBranch(tx, branch.id))) return false;
  const servers = await tx
    .selectFrom("task")
    .select(["id", "spec"])
    .where("owner_id", "=", branch.id)
    .where("kind", "=", "database")
    .where("desired", "=", "running")
    .execute();
  const outgrown = servers.filter((server) => hasOutgrown(serverSpecOf(server), plan));
  await removeTasks(
    tx,
    outgrown.map(({ id }) => id),
  );
  return outgrown.length > 0;
}

/** Holds the plan of a branch's owner, which comes before the branch in the order of locks; null: the branch is no more. */
export async function holdPlanOfBranch(tx: Db, databaseId: string): Promise<Plan | null> {
  const project = await tx
    .selectFrom("database")
    .innerJoin("project", "project.id", "database.project_id")
    .select("project.owner_id")
    .where("database.id", "=", databaseId)
    .executeTakeFirst();
  return project === undefined ? null : holdPlanOfUser(tx, project.owner_id);
}
