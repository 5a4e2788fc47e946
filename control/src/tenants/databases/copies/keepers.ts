// @pure
import { type KeeperTaskSpec, keeperTask } from "../../../fleet/tasks/kinds/keeper.ts";
import type { NewTask } from "../../../fleet/tasks/kinds/kind.ts";
import type { Copy, Plan } from "../../../stores/db/tables.ts";

/** How old the newest whole copy may become. */
const baseEverySeconds = 24 * 3_600;
/** How far back one can go. */
const keepSeconds = 7 * 24 * 3_600;

/** Two whole copies and the log of a week that writes as much as there is, in most weeks: what does not fit costs older moments. */
const sizeFactor = 4;
/** An empty server's own files, and segments of its log, of which each is written whole. */
const leastMb = 1_024;

/** What is asked of whoever keeps a copy of a branch of that plan. */
export const keeperWork = (
  plan: Pick<Plan, "db_size_mb">,
): Pick<KeeperTaskSpec, "sizeMb" | "baseEverySeconds" | "keepSeconds"> => ({
  ...{ baseEverySeconds, keepSeconds },
  sizeMb: Math.max(leastMb, plan.db_size_mb * sizeFactor),
});

/** The task that keeps a copy where it is. */
export const keeperOf = (
  { database_id: databaseId, engine, node_id }: Pick<Copy, "database_id" | "engine"> & { node_id: string },
  plan: Pick<Plan, "db_size_mb">,
  image: string,
): NewTask<KeeperTaskSpec> => keeperTask({ ...keeperWork(plan), databaseId, engine, image }, node_id);
