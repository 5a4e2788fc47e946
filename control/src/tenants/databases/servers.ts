import type { DatabaseEngine } from "@svc/proto";
import { databaseTask } from "../../fleet/tasks/kinds/database.ts";
import { insertTask } from "../../fleet/tasks/store.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Branch, Plan } from "../../stores/db/tables.ts";
import { tenantFacts } from "./facts.ts";
import { roleConnectionLimit, serverResources, serverSizeMb } from "./limits.ts";
import { isToBeReadOnly } from "./steps.ts";

/** Sessions of the platform's own, besides those of the tenant's role. */
const platformSessions = 10;

/** Asks for a server of the branch, in the caller's transaction: where its data is, or anywhere while there is none. */
export const startServer = (
  tx: Db,
  branch: Branch,
  plan: Plan,
  images: Readonly<Record<DatabaseEngine, string>>,
): Promise<string> =>
  insertTask(
    tx,
    { ...branch, pr_number: null },
    databaseTask(branch, {
      ...serverResources(branch.engine, plan),
      image: images[branch.engine],
      sizeMb: serverSizeMb(plan),
      connections: roleConnectionLimit(plan) + platformSessions,
      nodeSelector: plan.node_selector,
      readOnly: isToBeReadOnly(tenantFacts(branch, plan)),
    }),
    { replica: 0 },
  );
