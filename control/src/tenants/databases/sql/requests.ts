// @pure
import { databaseEngines, exportFormats, keeperUser } from "@svc/proto/database";
import { limits } from "@svc/proto/limits";
import { z } from "zod";

/** A value of a row as it travels to whoever asked: what JSON cannot hold exactly is the engine's own text. */
const sqlValue = z.union([z.string(), z.number(), z.boolean(), z.null()]);
export type SqlValue = z.output<typeof sqlValue>;
export type ExportFormat = (typeof exportFormats)[number];

/** Columns and what they are to hold, or be equal to; in pairs, since a column may have any name. */
const pairs = z.array(z.tuple([z.string(), z.json()])).max(2_000);
const table = z.string();
const database = z.string().regex(/^d_[0-9a-f]{16}$/);
const role = z.string().regex(/^r_[0-9a-f]{16}$/);
const slot = z.string().regex(/^svc_copy_[0-9a-f]{16}$/);
/** Of characters that need no escape between quotes. */
const verifier = z
  .string()
  .regex(/^(SCRAM-SHA-256\$[0-9]{1,9}:[A-Za-z0-9+/=]+\$[A-Za-z0-9+/=]+:[A-Za-z0-9+/=]+|\*[0-9A-F]{40})$/);
const name = z.string();
/** Of a branch with more, these are looked at. */
export const provenTablesMax = 500;
/** At once; the rest has its turn afterwards. */
export const releasedMax = 50;
const count = z.int().min(0);
const nothing = z.strictObject({});

const resultOfRows = {
  rows: z.array(z.array(sqlValue)),
  /** What the engine counted; null where it counts nothing. */
  rowCount: count.nullable(),
  truncated: z.boolean(),
};
const column = z.strictObject({
  name,
  dataType: z.string(),
  nullable: z.boolean(),
  default: z.string().nullable(),
  isPrimaryKey: z.boolean(),
});
const tableOfSchema = z.strictObject({
  name,
  approxRowCount: count,
  sizeBytes: count,
  columns: z.array(column),
  indexes: z.array(z.strictObject({ name, definition: z.string() })),
  foreignKeys: z.array(
    z.strictObject({
      name,
      columns: z.array(name),
      referencedTable: name,
      referencedColumns: z.array(name),
      definition: z.string(),
    }),
  ),
});
const viewOfSchema = z.strictObject({ name, columns: z.array(column), definition: z.string() });

/** What may be asked of a branch's server, each with what it takes and what it gives. */
export const requestShapes = {
  /** The console's: SQL of the tenant, as the tenant. */
  query: {
    takes: z.strictObject({ sql: z.string(), rollback: z.boolean(), readOnly: z.boolean() }),
    gives: z.strictObject({ columns: z.array(name), ...resultOfRows, rolledBack: z.boolean() }),
  },
  schema: {
    takes: nothing,
    gives: z.strictObject({ tables: z.array(tableOfSchema), views: z.array(viewOfSchema), truncated: z.boolean() }),
  },
  rows: {
    takes: z.strictObject({
      table,
      limit: z.int().min(1).max(limits.studioRowsMax),
      offset: count,
      /** Null: by primary key, and in no order without one. */
      orderBy: name.nullable(),
      dir: z.enum(["asc", "desc"]),
    }),
    gives: z.strictObject({
      columns: z.array(z.strictObject({ name, dataType: z.string() })),
      rows: z.array(z.array(sqlValue)),
      approxTotal: count,
      truncated: z.boolean(),
    }),
  },
  insert: {
    takes: z.strictObject({ table, values: pairs }),
    /** No row where the engine returns none. */
    gives: z.strictObject({ row: z.array(z.tuple([name, sqlValue])).nullable(), rowCount: count }),
  },
  update: {
    takes: z.strictObject({ table, pk: pairs, changes: pairs }),
    gives: z.strictObject({ rowCount: count }),
  },
  delete: {
    takes: z.strictObject({ table, pk: pairs }),
    gives: z.strictObject({ rowCount: count }),
  },
  count: { takes: z.strictObject({ table }), gives: z.strictObject({ count }) },
  migrations: {
    takes: nothing,
    gives: z.strictObject({
      tableExists: z.boolean(),
      migrations: z.array(z.strictObject({ name: z.string(), appliedAt: z.string() })),
    }),
  },
  /**
   * Tables of the tenant's own, the largest first, for `budgetMs` at most with the exact number of their rows: of one that is not counted
   * by then, or that may not show all of its rows, null. The counter is another one whenever something was written to a table; `at`
   * is the server's clock before anything was looked at.
   */
  tables: {
    takes: z.strictObject({ isCounted: z.boolean(), budgetMs: z.int().min(0).max(8_000) }),
    gives: z.strictObject({
      at: z.string(),
      tables: z
        .array(z.strictObject({ schema: name, name, counter: z.string().max(200).nullable(), rows: count.nullable() }))
        .max(provenTablesMax),
    }),
  },
  /** Gives the rows of a table as bytes beside the answer, which tells that they were all. */
  export: {
    takes: z.strictObject({ table, format: z.enum(exportFormats) }),
    gives: nothing,
  },
  /** Takes a CSV as bytes beside it, whose first line names columns. All of its rows are inserted, or none. */
  import: { takes: z.strictObject({ table }), gives: z.strictObject({ rowCount: count }) },
  // What follows is asked as the platform's own user.
  /** Makes database and role, or brings both to what is asked. */
  createTenant: {
    takes: z.strictObject({ database, role, verifier, connectionLimit: z.int().min(1).max(100_000) }),
    gives: nothing,
  },
  dropTenant: { takes: z.strictObject({ database, role }), gives: nothing },
  /** Another password, and whoever came in with the one before is put out. */
  setVerifier: { takes: z.strictObject({ role, verifier }), gives: nothing },
  /** Null: there is no such role. */
  readVerifier: {
    takes: z.strictObject({ role: z.union([role, z.literal(keeperUser)]) }),
    gives: z.strictObject({ verifier: z.string().nullable() }),
  },
  /** Makes the user that copies are kept by, or brings it to what is asked, and ends its sessions if they came by another password. */
  bringKeeper: { takes: z.strictObject({ verifier }), gives: nothing },
  /** Ends what the server keeps for copies that nobody keeps any more. Gives how many of them there were. */
  releaseSlots: {
    takes: z.strictObject({ slots: z.array(slot).max(releasedMax) }),
    gives: z.strictObject({ released: count }),
  },
  /**
   * Of a server that was started read-only: whether a session can undo that. Where it can, lasting settings to that end are
   * removed, and all sessions ended when there was one, when one of them writes, and when the database `hasGrown`.
   */
  holdReadOnly: {
    takes: z.strictObject({ database, role, hasGrown: z.boolean() }),
    gives: z.strictObject({ isSoft: z.boolean() }),
  },
  /**
   * Keeps the role out and ends every session but this one and those that read the log, so that nothing is written any more. Gives
   * where the log is then. `slot`: of a copy that tells the server how far it has it; null: none does. Waits for that for up to
   * `waitMs`.
   */
  freeze: {
    takes: z.strictObject({ role, slot: slot.nullable(), waitMs: z.int().min(0).max(10_000) }),
    gives: z.strictObject({ position: z.string().max(1_000), isCopied: z.boolean() }),
  },
  usage: {
    takes: z.strictObject({ database, role }),
    gives: z.strictObject({ sizeBytes: count, activeConnections: count }),
  },
  /** Calls off what a session of the role does, and ends the session when that has not helped after `graceMs`. */
  endSession: {
    takes: z.strictObject({ role, sessionId: count, graceMs: count }),
    gives: nothing,
  },
} as const satisfies Record<string, { takes: z.ZodType; gives: z.ZodType }>;

export type RequestName = keyof typeof requestShapes;
export type Asked<N extends RequestName> = z.output<(typeof requestShapes)[N]["takes"]>;
export type Given<N extends RequestName> = z.output<(typeof requestShapes)[N]["gives"]>;

/** Which of them are the platform's own, with its own user. */
const adminRequests = new Set<RequestName>([
  ...(["createTenant", "dropTenant", "setVerifier", "readVerifier", "holdReadOnly", "freeze"] as const),
  ...(["usage", "endSession", "bringKeeper", "releaseSlots"] as const),
]);
export const isAdminRequest = (name: RequestName): boolean => adminRequests.has(name);

/** Which of them have bytes beside them, and as long as those take. */
const transfers = new Set<RequestName>(["export", "import"]);
export const isTransfer = (name: RequestName): boolean => transfers.has(name);

export const requestNames = Object.keys(requestShapes) as RequestName[];

/** How a session logs in. The password is a secret. */
export const login = z.strictObject({ user: z.string(), password: z.string(), database: z.string() });
export type Login = z.output<typeof login>;

/** One request on a connection of its own: what a child process is told. */
export const taskMessage = z.strictObject({
  engine: z.enum(databaseEngines),
  login,
  name: z.enum(requestNames as [RequestName, ...RequestName[]]),
  /** Of the shape that belongs to the name. */
  asked: z.unknown(),
});
export type TaskMessage = z.output<typeof taskMessage>;

/** What a child may answer with that is no result. */
export const sqlRefusals = [
  "QUERY_ERROR",
  "INVALID_BODY",
  "TABLE_NOT_FOUND",
  "COLUMN_NOT_FOUND",
  "NO_PRIMARY_KEY",
  "DRY_RUN_UNAVAILABLE",
  "DATABASE_NOT_READY",
] as const;
export type SqlRefusal = (typeof sqlRefusals)[number];

/** What a child process says: that it may be given work, that its session has begun, and how it ended. */
export const childMessage = z.discriminatedUnion("says", [
  z.strictObject({ says: z.literal("idle") }),
  /** `sessionId` is the server's own number of the session. */
  z.strictObject({ says: z.literal("connected"), sessionId: count }),
  z.strictObject({ says: z.literal("given"), given: z.unknown(), durationMs: z.number().min(0) }),
  z.strictObject({ says: z.literal("refused"), code: z.enum(sqlRefusals), message: z.string() }),
]);
export type ChildMessage = z.output<typeof childMessage>;
