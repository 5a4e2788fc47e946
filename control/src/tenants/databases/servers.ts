import type { DatabaseEngine } from "@svc/proto";
import { databaseTask } from "../../fleet/tasks/kinds/database.ts";
import { insertTask } from "../../fleet/tasks/store.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Branch, Plan } from "../../stores/db/tables.ts";
import { roleConnectionLimit, serverResources } from "./limits.ts";

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
      sizeMb: plan.db_size_mb,
      connections: roleConnectionLimit(plan) + platformSessions,
      nodeSelector: plan.node_selector,
    }),
    { replica: 0 },
  );
