import type { MemoryTask } from "../../../../fleet/testing/tables.ts";
import type { Backup, BackupSchedule } from "../../../../stores/db/tables.ts";
import { isUnderWay, type NewBackupFacts } from "../../backups/rules.ts";
import type { Tx } from "./tables.ts";

/** Backups of branches, and the tasks that make them. */
export class MemoryBackups {
  /** As their rows in Postgres are. Each change makes another object: what was read stays as it was. */
  readonly rows = new Map<string, Backup>();
  /** A backup has one task at most. */
  readonly tasks = new Map<string, MemoryTask>();

  /** By project and channel. */
  readonly schedules = new Map<string, BackupSchedule>();
  /** When the last night began: see `last-night.ts`. */
  lastNight = new Date(0);

  change(id: string, change: Partial<Backup>): void {
    const row = this.rows.get(id);
    if (row !== undefined) this.rows.set(id, { ...row, ...change });
  }

  /** See `lockForRedo` of `fleet/tasks/owners/backup.ts`. */
  mayRedo(id: string): boolean {
    const row = this.rows.get(id);
    return row !== undefined && isUnderWay(row.status);
  }

  /** One of that very branch is under way. */
  isUnderWay(databaseId: string): boolean {
    return [...this.rows.values()].some((row) => row.database_id === databaseId && isUnderWay(row.status));
  }

  ofProject(projectId: string): Backup[] {
    return [...this.rows.values()].filter((row) => row.project_id === projectId);
  }
}

/** See `countBackups` of `backups/store.ts`. */
export function countBackups({ tables }: Tx, projectId: string): Pick<NewBackupFacts, "complete" | "underWay"> {
  const rows = tables.backups.ofProject(projectId);
  return {
    complete: rows.filter(({ status }) => status === "complete").length,
    underWay: rows.find(({ status }) => isUnderWay(status))?.channel ?? null,
  };
}

/** The unique index `database_backup_slot`: whatever was read before, another one of the project leaves no room. */
export function isSlotTaken({ tables }: Tx, projectId: string): boolean {
  return tables.backups.ofProject(projectId).some(({ status }) => isUnderWay(status));
}
