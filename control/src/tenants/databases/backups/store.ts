import type { Channel, DatabaseEngine } from "@svc/proto";
import { sql } from "kysely";
import type { Db } from "../../../stores/db/pool.ts";
import type { Backup } from "../../../stores/db/tables.ts";
import { enqueue } from "../../../stores/work/queue.ts";

/** Of one channel, or of all; the newest first. */
export const listBackups = (db: Db, projectId: string, channel: Channel | null): Promise<Backup[]> =>
  db
    .selectFrom("database_backup")
    .selectAll()
    .where("project_id", "=", projectId)
    .$if(channel !== null, (query) => query.where("channel", "=", channel ?? "production"))
    .orderBy("created_at", "desc")
    .orderBy("id")
    .execute();

/** Null: the project has no such backup. */
export async function findBackup(db: Db, projectId: string, id: string): Promise<Backup | null> {
  const backup = await db
    .selectFrom("database_backup")
    .selectAll()
    .where("project_id", "=", projectId)
    .where("id", "=", id)
    .executeTakeFirst();
  return backup ?? null;
}

/**
 * Whether one of that very branch is under way. While the branch is locked nobody begins to make one: whoever finds none, and has a
 * change take the branch, keeps it from being made until that is over.
 */
export async function isBackingUp(db: Db, databaseId: string): Promise<boolean> {
  const backup = await db
    .selectFrom("database_backup")
    .select("id")
    .where("database_id", "=", databaseId)
    .where("status", "in", ["pending", "running"])
    .executeTakeFirst();
  return backup !== undefined;
}

/** How many are complete, and the channel of the one under way; null: none is. Exact while the project is locked. */
export async function countBackups(db: Db, projectId: string): Promise<{ complete: number; underWay: Channel | null }> {
  const rows = await db
    .selectFrom("database_backup")
    .select(["status", "channel", (of) => of.fn.countAll<number>().as("count")])
    .where("project_id", "=", projectId)
    .where("status", "!=", "failed")
    .groupBy(["status", "channel"])
    .execute();
  const complete = rows.filter(({ status }) => status === "complete");
  return {
    complete: complete.reduce((sum, { count }) => sum + count, 0),
    underWay: rows.find(({ status }) => status !== "complete")?.channel ?? null,
  };
}

export const backupWork = "backup";

/** Begins a backup, with the work that makes it. False: another one of the project is under way, whatever was read before. */
export async function insertBackup(
  tx: Db,
  {
    id,
    projectId,
    ...of
  }: {
    id: string;
    projectId: string;
    databaseId: string;
    channel: Channel;
    engine: DatabaseEngine;
    /** How many the schedule keeps that asks for it; left out: somebody does. */
    scheduledKeep?: number;
  },
): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await tx
    .insertInto("database_backup")
    .values({
      ...{ id, project_id: projectId, database_id: of.databaseId, channel: of.channel, engine: of.engine },
      scheduled_keep: of.scheduledKeep ?? null,
    })
    .onConflict((conflict) =>
      conflict.column("project_id").where(sql<boolean>`status in ('pending', 'running')`).doNothing(),
    )
    .executeTakeFirst();
  if (numInsertedOrUpdatedRows !== 1n) return false;
  await enqueue(tx, { kind: backupWork, key: `${backupWork}/${id}`, payload: { backupId: id, projectId } });
  return true;
}

/** False: it has begun again to be worked on, or is gone. Its file goes once nothing refers to it any more. */
export async function deleteBackup(tx: Db, id: string): Promise<boolean> {
  const { numDeletedRows } = await tx
    .deleteFrom("database_backup")
    .where("id", "=", id)
    .where("status", "in", ["complete", "failed"])
    .executeTakeFirst();
  return numDeletedRows === 1n;
}

/** The backup, held until the transaction ends, if it is still under way; null when it is not. Before its tasks. */
export async function lockOpenBackup(tx: Db, id: string): Promise<Backup | null> {
  const backup = await tx
    .selectFrom("database_backup")
    .selectAll()
    .where("id", "=", id)
    .where("status", "in", ["pending", "running"])
    .forUpdate()
    .executeTakeFirst();
  return backup ?? null;
}

const now = sql<Date>`clock_timestamp()`;

export const setRunning = (tx: Db, id: string) =>
  tx
    .updateTable("database_backup")
    .set({ status: "running" })
    .where("id", "=", id)
    .where("status", "=", "pending")
    .execute();

export const setFailed = (tx: Db, id: string, error: string) =>
  tx.updateTable("database_backup").set({ status: "failed", error, ended_at: now }).where("id", "=", id).execute();

export const setComplete = (
  tx: Db,
  id: string,
  file: { repository: string; digest: string; sizeBytes: number; dumpBytes: number },
) =>
  tx
    .updateTable("database_backup")
    .set({
      ...{ status: "complete", repository: file.repository, digest: file.digest, ended_at: now },
      ...{ size_bytes: file.sizeBytes, dump_bytes: file.dumpBytes },
    })
    .where("id", "=", id)
    .execute();
