import { z } from "zod";
import { databaseEngines, databaseStatuses, exportFormats } from "../database.ts";
import { channels } from "../lifecycle.ts";
import { limits } from "../limits.ts";
import { utf8Length } from "../text.ts";
import { channel, count, id, replyObject, success, timestamp } from "./envelope.ts";
import { wholeNumber } from "./query.ts";

const engine = z.enum(databaseEngines);
const status = z.enum(databaseStatuses);

/** Names a branch of the project; without it the production one. A repeated parameter is no channel. */
export const databaseQuery = z.strictObject({ channel: z.enum(channels).default("production") });

/** What every reply about one branch says of it. */
const branch = { channel, engine };

// ------------------------------------------------------------- branches

export const createDatabaseInput = z.strictObject({ engine: engine.exactOptional() });
export const createDatabaseReply = success({ ...branch, databaseId: id, status });
export const deleteDatabaseReply = success({ ...branch, databaseId: id, status: z.literal("dropping") });

/** Where the data of a branch is safe: on its node's disk alone, also on another node, or also off site. */
export const databaseProtection = z.enum(["local", "keeper", "offsite"]);

/**
 * The last time that a copy of the branch was restored for a look, and was what it should be; null: never. Absent
 * from a control of before.
 */
export const lastProvenRestore = replyObject({
  at: timestamp,
  /** All that was committed until then was in it. */
  coveredAt: timestamp,
  tookMs: count,
  bytes: count,
})
  .nullable()
  .exactOptional();

const branchFields = {
  channel,
  /** Null: the project has no engine yet. */
  engine: engine.nullable(),
  enabled: z.boolean(),
  /** Null when absent. */
  status: status.nullable(),
  /** As last measured; 0 before that and when absent. */
  sizeBytes: count,
  sizeLimitMb: count,
  connectionLimit: count,
  /** Why the status is `error`, or what it waits for; null otherwise. */
  reason: z.string().nullable(),
  readOnly: z.boolean(),
  protection: databaseProtection.nullable(),
  lastProvenRestore,
};
export const databaseReply = success(branchFields);
export const databaseBranchesReply = success({
  /** Fixed with the first branch; null before. */
  engine: engine.nullable(),
  /** Production, Preview, Dev. */
  branches: z.array(replyObject(branchFields)).length(3),
});

export const databaseCredentialsReply = success({
  ...branch,
  /** A secret. */
  databaseUrl: z.string(),
  expiresAt: z.null(),
  note: z.string(),
});
/** Never sent: what follows is no reply. */
export const databaseTunnelReply = success({});
export const rotateCredentialsReply = success({ ...branch, status: z.literal("rotating"), note: z.string() });

// ---------------------------------------------------------------- studio

/** A value of a row as it travels: what JSON cannot hold exactly is the engine's own text. */
const databaseValue = z.unknown() as z.ZodType as z.ZodType<z.core.util.JSONType, z.core.util.JSONType>;
/** Column names to values. A name that no engine would take is one of a column that is not there. */
const values = z.record(z.string(), databaseValue);

/** Bytes of SQL in UTF-8. */
const sql = z.string().refine((text) => utf8Length(text) <= limits.sqlBytesMax, "is larger than 100 KB");

export const queryInput = z.strictObject({
  sql: sql.refine((text) => text.trim() !== "", "is empty"),
  rollback: z.boolean().exactOptional(),
  /** In a transaction that may not write; additive. */
  readOnly: z.boolean().exactOptional(),
});
const duration = { durationMs: z.number().min(0) };
export const queryReply = success({
  ...branch,
  columns: z.array(z.string()),
  /** Positional, along `columns`. */
  rows: z.array(z.array(databaseValue)),
  /** Of all rows that the statement gave or changed, where it gave any; see `sqlRowsCountedMax`. Null where the engine counts nothing. */
  rowCount: count.nullable(),
  truncated: z.boolean(),
  ...duration,
  rolledBack: z.boolean(),
});

const column = replyObject({
  name: z.string(),
  dataType: z.string(),
  nullable: z.boolean(),
  default: z.string().nullable(),
  isPrimaryKey: z.boolean(),
});
const index = replyObject({ name: z.string(), definition: z.string() });
const foreignKey = replyObject({
  name: z.string(),
  columns: z.array(z.string()),
  referencedTable: z.string(),
  referencedColumns: z.array(z.string()),
  definition: z.string(),
});
export const databaseTable = replyObject({
  name: z.string(),
  approxRowCount: count,
  sizeBytes: count,
  columns: z.array(column),
  indexes: z.array(index),
  foreignKeys: z.array(foreignKey),
});
export const databaseView = replyObject({ name: z.string(), columns: z.array(column), definition: z.string() });
export const databaseSchemaReply = success({
  ...branch,
  tables: z.array(databaseTable),
  views: z.array(databaseView),
  /** There are more tables than a reply holds; additive. */
  truncated: z.boolean(),
});

export const tableParams = z.strictObject({ id, table: z.string().min(1) });
export const tableRowsQuery = databaseQuery.extend({
  limit: wholeNumber(1, limits.studioRowsMax, limits.studioRowsDefault),
  offset: wholeNumber(0, Number.MAX_SAFE_INTEGER, 0),
  orderBy: z.string().exactOptional(),
  dir: z.enum(["asc", "desc"]).default("asc"),
});
export const tableRowsReply = success({
  columns: z.array(replyObject({ name: z.string(), dataType: z.string() })),
  rows: z.array(z.array(databaseValue)),
  rowCount: count,
  /** The engine's estimate. */
  approxTotal: count,
  truncated: z.boolean(),
  ...duration,
});

export const insertRowInput = z.strictObject({ values });
/** Postgres returns the row; MariaDB the number of rows. */
export const insertRowReply = success({
  row: z.record(z.string(), databaseValue).exactOptional(),
  rowCount: count,
  ...duration,
});
export const updateRowInput = z.strictObject({ pk: values, changes: values });
export const deleteRowInput = z.strictObject({ pk: values });
export const changedRowsReply = success({ rowCount: count, ...duration });
export const exportQuery = databaseQuery.extend({ format: z.enum(exportFormats).default("csv") });
/** A CSV goes as it is. */
export const importReply = success({ ...branch, rowCount: count, ...duration });
export const tableCountReply = success({ count, ...duration });

export const databaseMigrationsReply = success({
  ...branch,
  tableExists: z.boolean(),
  migrations: z.array(replyObject({ name: z.string(), appliedAt: z.string() })),
});

export const databaseUsageReply = success({
  ...branch,
  sizeBytes: count,
  sizeLimitMb: count,
  readOnly: z.boolean(),
  /** What its owner should know of that it can only be read; null: it can be written to. A control of before does not say. */
  warning: z.string().nullable().exactOptional(),
  connections: replyObject({ active: count, limit: count }),
  /** Everything until then is outside of the site as well; null: nothing is. Additive, and a control of before does not say. */
  offsiteAt: timestamp.nullable().exactOptional(),
  lastProvenRestore,
  /** The newest, oldest first. */
  history: z.array(replyObject({ sampledAt: timestamp, sizeBytes: count })).max(limits.databaseSamplesShown),
});

// --------------------------------------------------------- saved queries

const savedQuery = replyObject({
  id,
  name: z.string(),
  sql: z.string(),
  createdAt: timestamp,
  updatedAt: timestamp,
});
export const savedQueriesReply = success({ queries: z.array(savedQuery) });
export const savedQueryInput = z.strictObject({
  name: z.string().min(1).max(limits.savedQueryNameLengthMax),
  sql: sql.refine((text) => text !== "", "is empty"),
});
export const savedQueryReply = success({ query: savedQuery });
export const savedQueryParams = z.strictObject({ id, queryId: id });
export const deletedReply = success({ deleted: z.literal(true) });

// ---------------------------------------------------------------- backups

export const backupStatuses = ["pending", "running", "complete", "failed"] as const;

export const backup = replyObject({
  id,
  ...branch,
  status: z.enum(backupStatuses),
  /** Of the file; 0 until it is complete. */
  sizeBytes: count,
  error: z.string().nullable(),
  /** Nobody asked for it, and a newer one will replace it; additive, and a control of before does not say. */
  scheduled: z.boolean().exactOptional(),
  /** When all of it was outside of the site as well; null: it is not. Additive, and a control of before does not say. */
  offsiteAt: timestamp.nullable().exactOptional(),
  filename: z.string().regex(/\.sql\.gz$/),
  createdAt: timestamp,
  completedAt: timestamp.nullable(),
});
export type Backup = z.output<typeof backup>;
/** That a night has no backup of a channel, and why. */
const backupProblem = replyObject({ channel, night: timestamp, problem: z.string() });
export type BackupProblem = z.output<typeof backupProblem>;
export const backupsReply = success({
  backups: z.array(backup),
  /** Of channels whose last night has none that was scheduled; additive, and a control of before does not say. */
  problems: z.array(backupProblem).exactOptional(),
});
/** `channel` or `allChannels`; neither: production. */
export const backupsQuery = z
  .strictObject({ channel: z.enum(channels).exactOptional(), allChannels: z.enum(["true", "false"]).exactOptional() })
  .refine(({ channel, allChannels }) => channel === undefined || allChannels !== "true", {
    message: "names one channel and asks for all of them; send either",
    path: ["channel"],
  });
export const backupParams = z.strictObject({ id, backupId: id });
/** Only asserts where the backup was taken. */
export const backupQuery = z.strictObject({ channel: z.enum(channels).exactOptional() });
export const backupReply = success({ backup });
const keptBackups = { channels: z.array(channel), keep: count };
export const databaseSettingsInput = z.strictObject({
  /** A backup of each channel every night, of which the newest `keep` stay; null: none. */
  backups: z
    .strictObject({
      channels: z
        .array(z.enum(channels))
        .min(1)
        .max(channels.length)
        .refine((named) => new Set(named).size === named.length, "names a channel twice"),
      keep: z.int().min(1).max(limits.scheduledBackupsKeptMax),
    })
    .nullable(),
});
export const databaseSettingsReply = success({
  backups: replyObject(keptBackups).nullable(),
  backupProblems: z.array(backupProblem),
});
export const createBackupReply = success({ ...branch, backupId: id, status: z.literal("pending") });
