import type { Backup } from "../../../stores/db/tables.ts";

/**
 * What is told of a backup. Neither its address in the registry nor anything secret.
 *
 * @param offsiteAt when all of it was outside of this site as well; undefined: it is not
 */
export const backupView = (backup: Backup, offsiteAt: Date | undefined) => ({
  ...{ id: backup.id, channel: backup.channel, engine: backup.engine, status: backup.status },
  sizeBytes: backup.size_bytes ?? 0,
  error: backup.error,
  scheduled: backup.scheduled_keep !== null,
  offsiteAt: offsiteAt?.toISOString() ?? null,
  filename: filenameOf(backup),
  createdAt: backup.created_at.toISOString(),
  completedAt: backup.status === "complete" ? (backup.ended_at?.toISOString() ?? null) : null,
});

/** Such as `production-postgres-20300101T000000Z.sql.gz`: of characters that no shell, disk or header takes for its own. */
export function filenameOf({ channel, engine, created_at }: Pick<Backup, "channel" | "engine" | "created_at">): string {
  const at = created_at
    .toISOString()
    .replace(/\.\d+Z$/, "Z")
    .replaceAll(/[-:]/g, "");
  return `${channel}-${engine}-${at}.sql.gz`;
}
