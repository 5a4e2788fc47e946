import type { Duplex } from "node:stream";
import type { Asked, Given, Login, SqlValue } from "../requests.ts";
import type { Dialect, TableShape } from "./row-sql.ts";

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
}

/** The platform's own work on a server. Each may be repeated, and begun anew after it broke off anywhere. */
export interface AdminSession {
  readonly id: number;
  createTenant(asked: Asked<"createTenant">): Promise<void>;
  dropTenant(asked: Asked<"dropTenant">): Promise<void>;
  setVerifier(asked: Asked<"setVerifier">): Promise<void>;
  readVerifier(asked: Asked<"readVerifier">): Promise<string | null>;
  holdReadOnly(asked: Asked<"holdReadOnly">): Promise<Given<"holdReadOnly">>;
  usage(asked: Asked<"usage">): Promise<Given<"usage">>;
  /** Calls off what the session does. */
  cancel(asked: Asked<"endSession">): Promise<void>;
  /** Ends it. */
  terminate(asked: Asked<"endSession">): Promise<void>;
}

/** What is done differently for each engine. Whoever opens a session ends its line. */
export interface Engine {
  /** `isReadOnlyQuery`: it will run a query that may not write, and nothing else. */
  open(line: Duplex, login: Login, options: { isReadOnlyQuery: boolean }): Promise<Session>;
  openAdmin(line: Duplex, login: Login): Promise<AdminSession>;
  /** What became of a request, for whoever sent it; null when the engine said nothing. */
  refusalOf(error: unknown): EngineRefusal | null;
}

export interface EngineRefusal {
  message: string;
  /** It let nobody in: the password is another one, or it is not up. */
  isNotReady: boolean;
}
