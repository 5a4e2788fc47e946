import type { Channel } from "@svc/proto";
import type { Backup } from "../../../../stores/db/tables.ts";
import { isUnderWay, newBackupRefusal } from "../../backups/rules.ts";
import { backupWork } from "../../backups/store.ts";
import { useRefusal } from "../../rules.ts";
import { countBackups, isSlotTaken } from "./backups.ts";
import type { Tx } from "./tables.ts";

type NewBackup = Pick<Backup, "id" | "project_id" | "database_id" | "channel" | "engine"> &
  Partial<Pick<Backup, "scheduled_keep">>;

/** See `insertBackup` of `backups/store.ts`. */
export function insertBackup(tx: Tx, backup: NewBackup): boolean {
  const { id, project_id: projectId } = backup;
  if (isSlotTaken(tx, projectId)) return false;
  tx.tables.backups.rows.set(id, {
    ...{ status: "pending", error: null, repository: null, digest: null, size_bytes: null, dump_bytes: null },
    ...{ created_at: tx.now, ended_at: null, scheduled_keep: null, offsite_secret: null },
    ...backup,
  });
  const payload = { backupId: id, projectId };
  tx.tables.work.add(tx, { kind: backupWork, key: `${backupWork}/${id}`, payload });
  return true;
}

/** As the endpoint has it: one transaction that has the project to itself. False: it is refused. */
export function requestBackup(tx: Tx, id: string, projectId: string, channel: Channel): boolean {
  const { branches } = tx.tables;
  const branch = branches.ofProject(projectId).find((row) => row.channel === channel);
  if (branch === undefined || useRefusal(branch.status) !== null || branches.suspended.has(projectId)) return false;
  if (newBackupRefusal({ maxBackups: branches.plan.max_backups, ...countBackups(tx, projectId) }) !== null)
    return false;
  return insertBackup(tx, { id, project_id: projectId, database_id: branch.id, channel, engine: branch.engine });
}

/** See `saveSchedule` of `backups/schedule/store.ts`, for one channel. */
export function saveSchedule(
  { tables: { backups } }: Tx,
  projectId: string,
  channel: Channel,
  keep: number | null,
): void {
  const key = `${projectId} ${channel}`;
  if (keep === null) backups.schedules.delete(key);
  else {
    const { night, problem } = backups.schedules.get(key) ?? { night: backups.lastNight, problem: null };
    backups.schedules.set(key, { project_id: projectId, channel, keep, night, problem });
  }
}

/** See `deleteBackup` there. */
export function deleteBackup({ tables: { backups } }: Tx, id: string): boolean {
  const row = backups.rows.get(id);
  return row !== undefined && !isUnderWay(row.status) && backups.rows.delete(id);
}
