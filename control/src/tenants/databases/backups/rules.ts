// @pure
import { type Channel, plural } from "@svc/proto";
import type { BackupStatus } from "../../../stores/db/tables.ts";
import type { Refusal } from "../rules.ts";

export interface NewBackupFacts {
  maxBackups: number;
  /** Of the project, of all channels. */
  complete: number;
  /** The channel of the one that is pending or running; null: none is. */
  underWay: Channel | null;
}

/** What a plan without backups refuses. */
export const noBackups = {
  code: "QUOTA_EXCEEDED",
  message: "The plan does not include backups.",
} as const satisfies Refusal;

/** Why no backup is begun; null: it is. The channel's database is ready. */
export function newBackupRefusal({ maxBackups, complete, underWay }: NewBackupFacts): Refusal | null {
  if (maxBackups === 0) return noBackups;
  if (underWay !== null) return slotTaken(underWay);
  if (complete < maxBackups) return null;
  return {
    code: "QUOTA_EXCEEDED",
    message: `The plan keeps ${plural(maxBackups, "backup")} per project, of all channels together. Delete one first.`,
  };
}

/** What whoever comes second is told. */
export const slotTaken = (channel: Channel): Refusal => ({
  code: "BACKUP_IN_PROGRESS",
  message: `A backup of the ${channel} database is under way, and a project has one at a time. Wait until it is done.`,
});

export const isUnderWay = (status: BackupStatus): boolean => status === "pending" || status === "running";

/** Why a backup is not deleted; null: it is. */
export const deletionRefusal = (status: BackupStatus, channel: Channel): Refusal | null =>
  isUnderWay(status)
    ? { code: "BACKUP_IN_PROGRESS", message: `This backup of the ${channel} database is under way.` }
    : null;

/** Why there is no file; null: there is. */
export const downloadRefusal = (status: BackupStatus): Refusal | null =>
  status === "complete" ? null : { code: "BACKUP_NOT_READY" };

/** Why a backup is not the one that is meant: it was taken of another channel than the caller says; null: it may be. */
export const assertionRefusal = (asserted: Channel | undefined, channel: Channel): Refusal | null =>
  asserted === undefined || asserted === channel
    ? null
    : { code: "VALIDATION", message: `The backup was taken of ${channel}, not of ${asserted}.` };

const mebibyte = 1024 * 1024;
/** Numbers and bytes take more room as text than in a table, and indexes none at all. */
const textPerByte = 4;
const least = 256 * mebibyte;

/** What the SQL of a database may come to that holds no more than the plan's size. */
export const maxDumpBytes = ({ db_size_mb }: { db_size_mb: number }): number =>
  Math.max(least, db_size_mb * mebibyte * textPerByte);
