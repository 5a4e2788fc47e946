import type { Duplex } from "node:stream";
import type { Asked, ExportFormat, Given, Login, SqlValue } from "../requests.ts";
import type { ColumnShape, Dialect, TableShape } from "./row-sql.ts";

/** Of one statement. */
export interface Result {
  rows: SqlValue[][];
  /** Of rows that came, or were changed; null where the engine counts nothing. */
  rowCount: number | null;
}

/** A login at a branch's server, for one request. */
export interface Session {
  /** The server's own number of it. */
  readonly id: number;
  readonly dialect: Dialect;
  /** Runs a statement that is ours, and keeps all of its rows. */
  run(sql: string, values?: readonly (string | null)[]): Promise<Result>;
  /** The base table of that very name that everybody sees; null when there is none. */
  findTable(name: string): Promise<TableShape | null>;
  query(asked: Asked<"query">): Promise<Given<"query">>;
  schema(): Promise<Given<"schema">>;
  /** Those that `tables` is about, the largest first, and the server's clock before. */
  listCounters(max: number): Promise<{ at: string; tables: CountedTable[] }>;
  /** The rows of a table, with the columns of its shape, as text of the format, no faster than they are taken. */
  exportRows(table: TableShape, format: ExportFormat): AsyncIterable<Buffer | string>;
  /**
   * Inserts the rows of a CSV, whose first line names `columns`, and gives how many; all of them or none. Throws QUERY_ERROR that
   * tells the line.
   */
  importRows(table: TableShape, columns: readonly ColumnShape[], csv: AsyncIterable<Buffer>): Promise<number>;
}

/** A table of the tenant's, and what is another word whenever something was written to it; null: nobody can tell. */
export interface CountedTable {
  schema: string;
  name: string;
  counter: string | null;
  /** The statement that counts its rows; null: it may not show all of them. */
  countSql: string | null;
}

/** The platform's own work on a server. Each may be repeated, and begun anew after it broke off anywhere. */
export interface AdminSession {
  readonly id: number;
  createTenant(asked: Asked<"createTenant">): Promise<void>;
  dropTenant(asked: Asked<"dropTenant">): Promise<void>;
  setVerifier(asked: Asked<"setVerifier">): Promise<void>;
  readVerifier(asked: Asked<"readVerifier">): Promise<string | null>;
  holdReadOnly(asked: Asked<"holdReadOnly">): Promise<Given<"holdReadOnly">>;
  bringKeeper(asked: Asked<"bringKeeper">): Promise<void>;
  releaseSlots(asked: Asked<"releaseSlots">): Promise<number>;
  /** Keeps the tenant out, and tells where the log is once nobody can write any more. */
  freeze(asked: Asked<"freeze">): Promise<{ position: string }>;
  /** Whether the copy of that slot has the log until `position`. */
  isCopied(slot: string, position: string): Promise<boolean>;
  usage(asked: Asked<"usage">): Promise<Given<"usage">>;
  /** Calls off what the session does. */
  cancel(asked: Asked<"endSession">): Promise<void>;
  /** Ends it. */
  terminate(asked: Asked<"endSession">): Promise<void>;
}

export interface SessionOptions {
  isReadOnlyQuery: boolean;
  longestMs: number;
  lockMs: number | null;
}

/** What is done differently for each engine. Whoever opens a session ends its line. */
export interface Engine {
  /**
   * `isReadOnlyQuery`: it will run a query that may not write, and nothing else. `longestMs`: after which the server itself ends a
   * statement that nobody asks for any more. `lockMs`: how long it waits for a lock; null: as long as the server says.
   */
  open(line: Duplex, login: Login, options: SessionOptions): Promise<Session>;
  openAdmin(line: Duplex, login: Login): Promise<AdminSession>;
  /** What became of a request, for whoever sent it; null when the engine said nothing. */
  refusalOf(error: unknown): EngineRefusal | null;
}

export interface EngineRefusal {
  message: string;
  /** It let nobody in: the password is another one, or it is not up. */
  isNotReady: boolean;
}
