import { sql } from "kysely";
import type { Fleet } from "../../../fleet/cluster/fleet.ts";
import { isHealthy } from "../../../fleet/cluster/keys.ts";
import { specOf } from "../../../fleet/tasks/kinds/index.ts";
import { findOneShot } from "../../../fleet/tasks/one-shot.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Backup, Task } from "../../../stores/db/tables.ts";
import { holdsBranch } from "../changes/store.ts";
import type { BackupFacts } from "./steps.ts";

/** Everything that decides a backup's next step, read afresh; null when it is no more. */
export async function readBackupFacts(
  { db, fleet }: { db: Db; fleet: Pick<Fleet, "observation"> },
  id: string,
): Promise<{ backup: Backup; facts: BackupFacts } | null> {
  const row = await db
    .selectFrom("database_backup")
    .innerJoin("project", "project.id", "database_backup.project_id")
    .leftJoin("database", "database.id", "database_backup.database_id")
    .selectAll("database_backup")
    .select(["project.deleting_at", "project.suspended_at", "database.status as branch"])
    .select(sql<number>`extract(epoch from clock_timestamp() - database_backup.created_at)::float8 * 1000`.as("age_ms"))
    .where("database_backup.id", "=", id)
    .executeTakeFirst();
  if (row === undefined) return null;
  const { deleting_at, suspended_at, branch, age_ms, ...backup } = row;
  const [task, server, isHeld] = await Promise.all([
    findOneShot(db, fleet, id),
    findServer(db, backup.database_id),
    holdsBranch(db, backup.database_id),
  ]);
  return {
    backup,
    facts: {
      status: backup.status,
      ageMs: age_ms,
      projectGone: deleting_at !== null,
      suspended: suspended_at !== null,
      branch,
      // One that is on its way out would end in the middle of it.
      server: isHeld ? null : server && servingAt(server, fleet),
      task: task && { ...task.facts, file: task.seen?.backup ?? null },
    },
  };
}

/** The task that is the server of a branch; null: there is none at present. */
const findServer = async (db: Db, databaseId: string): Promise<Task | null> =>
  (await db
    .selectFrom("task")
    .selectAll()
    .where("owner_id", "=", databaseId)
    .where("desired", "=", "running")
    .where("reaped_at", "is", null)
    .orderBy("epoch", "desc")
    .limit(1)
    .executeTakeFirst()) ?? null;

function servingAt(task: Task, fleet: Pick<Fleet, "observation">): BackupFacts["server"] {
  const { id, node_id: nodeId } = task;
  const spec = specOf(task);
  if (nodeId === null || spec.kind !== "database") return null;
  const seen = fleet.observation(nodeId, id);
  return isHealthy(seen) ? { nodeId, image: spec.image } : null;
}
