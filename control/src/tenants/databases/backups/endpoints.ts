import type { Readable } from "node:stream";
import {
  backupParams,
  backupQuery,
  backupReply,
  backupsQuery,
  backupsReply,
  type Channel,
  createBackupReply,
  databaseQuery,
  deletedReply,
  idParams,
} from "@svc/proto";
import { RegistryError } from "@svc/registry";
import { recordAudit } from "../../../http/audit.ts";
import type { Caller } from "../../../http/caller.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Backup, Project } from "../../../stores/db/tables.ts";
import { Refused } from "../../../stores/refused.ts";
import type { Bucket } from "../../../stores/s3/bucket.ts";
import { BucketError } from "../../../stores/s3/errors.ts";
import type { TenantContext } from "../../context.ts";
import { endpoint, fileEndpoint } from "../../endpoint.ts";
import { getProject } from "../../projects/store.ts";
import { branchErrors, getReadyBranch, throwIf } from "../endpoints/access.ts";
import { type OffsiteSource, openOffsite } from "./offsite/open.ts";
import { listOffsiteTimes } from "./offsite/store.ts";
import { assertionRefusal, deletionRefusal, downloadRefusal, newBackupRefusal, slotTaken } from "./rules.ts";
import { listSchedules } from "./schedule/store.ts";
import { problemsView } from "./schedule/view.ts";
import { countBackups, deleteBackup, findBackup, insertBackup, listBackups } from "./store.ts";
import { backupView, filenameOf } from "./view.ts";

const path = "/projects/:id/database/backups";

/** A backup of the caller's project. Throws NOT_FOUND, and VALIDATION when it was taken of another channel than is said. */
async function getBackup(
  db: Db,
  caller: Pick<Caller, "userId" | "projectIds">,
  { id, backupId }: { id: string; backupId: string },
  asserted: Channel | undefined,
): Promise<{ project: Project; backup: Backup }> {
  const project = await getProject(db, caller, id);
  const backup = await findBackup(db, project.id, backupId);
  if (backup === null) throw new Refused("NOT_FOUND");
  throwIf(assertionRefusal(asserted, backup.channel));
  return { project, backup };
}

const offsiteTimes = async (db: Db, bucket: Bucket | null, backups: readonly Backup[]) =>
  bucket === null
    ? new Map<string, Date>()
    : listOffsiteTimes(
        db,
        backups.map(({ id }) => id),
        bucket.place,
      );

const list = endpoint({
  method: "GET",
  path,
  access: { scope: "projects:read" },
  summary: "The backups of a channel's database, or of all channels, the newest first.",
  params: idParams,
  query: backupsQuery,
  reply: backupsReply,
  async handle({ db, bucket }, { caller, params, query: { channel = "production", allChannels } }) {
    const project = await getProject(db, caller, params.id);
    const backups = await listBackups(db, project.id, allChannels === "true" ? null : channel);
    const offsite = await offsiteTimes(db, bucket, backups);
    const schedules = await listSchedules(db, project.id);
    const shown = schedules.filter((each) => allChannels === "true" || each.channel === channel);
    return { backups: backups.map((each) => backupView(each, offsite.get(each.id))), problems: problemsView(shown) };
  },
});

const read = endpoint({
  method: "GET",
  path: `${path}/:backupId`,
  access: { scope: "projects:read" },
  summary: "How far a backup is. It stays when its database is dropped.",
  params: backupParams,
  query: backupQuery,
  reply: backupReply,
  async handle({ db, bucket }, { caller, params, query }) {
    const { backup } = await getBackup(db, caller, params, query.channel);
    const offsite = await offsiteTimes(db, bucket, [backup]);
    return { backup: backupView(backup, offsite.get(backup.id)) };
  },
});

const create = endpoint({
  method: "POST",
  path,
  access: { scope: "projects:write" },
  summary: "Begin a backup of a channel's database; poll until it is complete. A project has one under way at a time.",
  params: idParams,
  query: databaseQuery,
  status: 202,
  reply: createBackupReply,
  errors: [...branchErrors, "QUOTA_EXCEEDED", "BACKUP_IN_PROGRESS", "IDEMPOTENCY_CONFLICT"],
  handle({ random, createOnce }, { caller, params, query: { channel }, address, idempotencyKey }) {
    const request = [`POST ${path}`, params.id, channel];
    return createOnce({ caller, idempotencyKey, request, status: 202 }, async (tx) => {
      // The lock keeps the count exact.
      const { project, plan, branch } = await getReadyBranch(tx, caller, { id: params.id, channel }, { lock: true });
      throwIf(newBackupRefusal({ maxBackups: plan.max_backups, ...(await countBackups(tx, project.id)) }));
      const { engine } = branch;
      const backupId = random.uuid();
      const of = { projectId: project.id, databaseId: branch.id, channel, engine };
      if (!(await insertBackup(tx, { id: backupId, ...of }))) throwIf(slotTaken(channel));
      const detail = { channel, engine, backupId };
      await recordAudit(tx, { caller, address, action: "backup.create", target: project.id, detail });
      return { channel, engine, backupId, status: "pending" as const };
    });
  },
});

const remove = endpoint({
  method: "DELETE",
  path: `${path}/:backupId`,
  access: { scope: "projects:write" },
  summary: "Delete a backup that is complete or has failed. The database stays as it is.",
  params: backupParams,
  query: backupQuery,
  reply: deletedReply,
  errors: ["BACKUP_IN_PROGRESS"],
  handle: ({ db }, { caller, params, query, address }) =>
    db.transaction().execute(async (tx) => {
      const { project, backup } = await getBackup(tx, caller, params, query.channel);
      throwIf(deletionRefusal(backup.status, backup.channel));
      if (!(await deleteBackup(tx, backup.id))) throw new Refused("NOT_FOUND");
      const detail = { channel: backup.channel, backupId: backup.id };
      await recordAudit(tx, { caller, address, action: "backup.delete", target: project.id, detail });
      return { deleted: true as const };
    }),
});

const download = fileEndpoint({
  method: "GET",
  path: `${path}/:backupId/download`,
  access: { scope: "projects:read" },
  summary: "The file of a complete backup: plain SQL, gzipped.",
  params: backupParams,
  query: backupQuery,
  file: "application/gzip",
  errors: ["BACKUP_NOT_READY"],
  async handle(context, { caller, params, query }) {
    const { backup } = await getBackup(context.db, caller, params, query.channel);
    throwIf(downloadRefusal(backup.status));
    const { repository, digest, size_bytes: sizeBytes } = backup;
    if (repository === null || digest === null || sizeBytes === null) throw new Refused("BACKUP_NOT_READY");
    const stream = await open(context, { ...backup, repository, digest, size_bytes: sizeBytes });
    return { stream, sizeBytes, filename: filenameOf(backup) };
  },
});

/** Lines are slow, and dumps large: whoever goes on reading may take this long. */
const downloadMs = 6 * 3_600_000;

/**
 * The file, which errors at its end unless it is exactly what was stored: from outside of this site where the registry does not
 * have it, or not now. Throws UNAVAILABLE while it cannot be had anywhere.
 */
async function open(
  { registry, bucket, ...context }: Pick<TenantContext, "registry" | "bucket" | "db" | "secrets" | "log">,
  backup: Backup & { repository: string; digest: string; size_bytes: number },
): Promise<Readable> {
  try {
    const options = { maxSizeBytes: backup.size_bytes, transferTimeoutMs: downloadMs };
    return await registry.pullArtifact(backup.repository, backup.digest, options);
  } catch (cause) {
    if (!(cause instanceof RegistryError)) throw cause;
    const isAway = cause.code === "ARTIFACT_REGISTRY_UNAVAILABLE";
    if (!isAway && cause.code !== "ARTIFACT_NOT_FOUND") throw cause;
    const stream = bucket && (await openElsewhere({ ...context, bucket }, backup));
    if (stream !== null) return stream;
    if (!isAway) throw cause;
    throw new Refused("UNAVAILABLE", "The store of backups does not answer. Try again in a moment.", { cause });
  }
}

async function openElsewhere(
  { log, ...source }: OffsiteSource & Pick<TenantContext, "log">,
  backup: Backup,
): Promise<Readable | null> {
  try {
    const stream = await openOffsite(source, backup);
    if (stream !== null)
      log.warn({ backupId: backup.id }, "a backup is read from off-site: the registry does not have it");
    return stream;
  } catch (cause) {
    if (!(cause instanceof BucketError)) throw cause;
    throw new Refused("UNAVAILABLE", "Neither store of backups has it now. Try again in a moment.", { cause });
  }
}

export const backupEndpoints = [list, read, create, remove, download];
