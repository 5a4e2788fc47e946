import { type Channel, databaseChannels } from "@svc/proto";
import { sql } from "kysely";
import type { Db } from "../../../../stores/db/pool.ts";
import type { BackupSchedule } from "../../../../stores/db/tables.ts";
import { lastNight } from "../../last-night.ts";

/** What is kept of each channel, and of which; null: nothing is backed up by itself. */
export interface Schedule {
  channels: readonly Channel[];
  keep: number;
}

/** Production first. */
export async function listSchedules(db: Db, projectId: string): Promise<BackupSchedule[]> {
  const rows = await db
    .selectFrom("database_backup_schedule")
    .selectAll()
    .where("project_id", "=", projectId)
    .execute();
  return rows.toSorted((a, b) => databaseChannels.indexOf(a.channel) - databaseChannels.indexOf(b.channel));
}

/** In the place of the one before. A channel that it had goes on with its nights; another one begins with the next. */
export async function saveSchedule(tx: Db, projectId: string, schedule: Schedule | null): Promise<void> {
  const { channels, keep } = schedule ?? { channels: [], keep: 0 };
  await tx
    .deleteFrom("database_backup_schedule")
    .where("project_id", "=", projectId)
    .where(sql<boolean>`channel <> all(${[...channels]}::text[])`)
    .execute();
  if (channels.length === 0) return;
  await tx
    .insertInto("database_backup_schedule")
    .values(channels.map((channel) => ({ project_id: projectId, channel, keep, night: lastNight })))
    .onConflict((conflict) => conflict.columns(["project_id", "channel"]).doUpdateSet({ keep }))
    .execute();
}

/** Of one round; the rest has its turn in the next. */
const roundMax = 500;

/** Channels whose databases can be used and had no turn since the night began. */
export const listDue = (db: Db): Promise<{ projectId: string; channel: Channel }[]> =>
  db
    .selectFrom("database_backup_schedule as schedule")
    .innerJoin("project", "project.id", "schedule.project_id")
    .innerJoin("database", (join) =>
      join.onRef("database.project_id", "=", "schedule.project_id").onRef("database.channel", "=", "schedule.channel"),
    )
    .select(["schedule.project_id as projectId", "schedule.channel"])
    .where("schedule.night", "<", lastNight)
    // What was made since is for the next night.
    .where("database.created_at", "<", lastNight)
    .where("database.status", "=", "ready")
    .where("project.suspended_at", "is", null)
    .where("project.deleting_at", "is", null)
    .orderBy("schedule.night")
    .orderBy("schedule.project_id")
    .orderBy((of) => of.fn<number>("array_position", [sql`array['production', 'preview', 'dev']`, "schedule.channel"]))
    .limit(roundMax)
    .execute();

/** Held until the transaction ends; null: it had its turn this night, or is not to have one any more. After its project. */
export async function lockDue(tx: Db, projectId: string, channel: Channel): Promise<BackupSchedule | null> {
  const schedule = await tx
    .selectFrom("database_backup_schedule")
    .selectAll()
    .where("project_id", "=", projectId)
    .where("channel", "=", channel)
    .where("night", "<", lastNight)
    .forUpdate()
    .executeTakeFirst();
  return schedule ?? null;
}

/** The night has had its turn. `problem`: why it has no backup; null: it has. */
export const endTurn = (tx: Db, { project_id, channel }: BackupSchedule, problem: string | null) =>
  tx
    .updateTable("database_backup_schedule")
    .set({ night: lastNight, problem })
    .where("project_id", "=", project_id)
    .where("channel", "=", channel)
    .execute();

/** How many complete ones of a channel a schedule made. Exact while the project is locked. */
export async function countOwn(db: Db, projectId: string, channel: Channel): Promise<number> {
  const { count } = await db
    .selectFrom("database_backup")
    .select((of) => of.fn.countAll<number>().as("count"))
    .where("project_id", "=", projectId)
    .where("channel", "=", channel)
    .where("status", "=", "complete")
    .where("scheduled_keep", "is not", null)
    .executeTakeFirstOrThrow();
  return count;
}

/**
 * Deletes what the schedule made of a channel, but for the newest `keep` that are complete and as many that failed. Nobody else's
 * is touched. Returns the ids.
 */
export async function deleteReplaced(
  tx: Db,
  { projectId, channel, keep }: { projectId: string; channel: Channel; keep: number },
): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    delete from database_backup where id in (
      select id from (
        select id, row_number() over (partition by status order by created_at desc, id) as place
        from database_backup
        where project_id = ${projectId} and channel = ${channel} and scheduled_keep is not null
          and status in ('complete', 'failed')) ranked
      where place > ${keep})
    returning id`.execute(tx);
  return rows.map(({ id }) => id);
}
