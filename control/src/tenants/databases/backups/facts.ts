import type { DatabaseStatus } from "@svc/proto";
import { sql } from "kysely";
import type { Fleet } from "../../../fleet/cluster/fleet.ts";
import { isHealthy } from "../../../fleet/cluster/keys.ts";
import { specOf } from "../../../fleet/tasks/kinds/index.ts";
import { findOneShotTask, type OneShotTask, oneShotFacts } from "../../../fleet/tasks/one-shot.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Backup, Task } from "../../../stores/db/tables.ts";
import { holdsBranch } from "../changes/store.ts";
import type { BackupFacts } from "./steps.ts";

/** A task that is the server of a branch. */
export type ServerOfBackup = Pick<Task, "id" | "kind" | "node_id" | "spec">;

/** A backup, and what is written down that decides its next step. */
export interface BackupRow extends Pick<BackupFacts, "ageMs" | "projectGone" | "suspended"> {
  backup: Backup;
  /** Of the very branch that it was asked for; null: that is no more. */
  branch: DatabaseStatus | null;
  /** Null: there is none at present, or it is on its way out, and would end in the middle of it. */
  server: ServerOfBackup | null;
  /** The newest that was made for it; null before there was one. */
  task: OneShotTask | null;
}

/** Everything that decides a backup's next step and is in Postgres, read afresh; null when it is no more. */
export async function findBackupRow(db: Db, id: string): Promise<BackupRow | null> {
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
    findOneShotTask(db, id),
    findServer(db, backup.database_id),
    holdsBranch(db, backup.database_id),
  ]);
  return {
    ...{ backup, branch, task, ageMs: age_ms, projectGone: deleting_at !== null, suspended: suspended_at !== null },
    server: isHeld ? null : server,
  };
}

/** The same with what nodes say of its server and its task. */
export function foundBackup(
  { backup, branch, server, task, ...rest }: BackupRow,
  fleet: Pick<Fleet, "observation">,
): { backup: Backup; facts: BackupFacts } {
  const own = task && oneShotFacts(task, fleet);
  return {
    backup,
    facts: {
      ...{ ...rest, status: backup.status, branch },
      server: server && servingAt(server, fleet),
      task: own && { ...own.facts, file: own.seen?.backup ?? null },
    },
  };
}

/** The task that is the server of a branch; null: there is none at present. */
const findServer = async (db: Db, databaseId: string): Promise<ServerOfBackup | null> =>
  (await db
    .selectFrom("task")
    .select(["id", "kind", "node_id", "spec"])
    .where("owner_id", "=", databaseId)
    .where("desired", "=", "running")
    .where("reaped_at", "is", null)
    .orderBy("epoch", "desc")
    .limit(1)
    .executeTakeFirst()) ?? null;

function servingAt(task: ServerOfBackup, fleet: Pick<Fleet, "observation">): BackupFacts["server"] {
  const { id, node_id: nodeId } = task;
  const spec = specOf(task);
  if (nodeId === null || spec.kind !== "database") return null;
  const seen = fleet.observation(nodeId, id);
  return isHealthy(seen) ? { nodeId, image: spec.image } : null;
}
