import { Kysely, PostgresDialect } from "kysely";
import pg from "pg";
import { withPrepared } from "./prepared.ts";
import type { Database } from "./tables.ts";

/** A connection pool or a transaction: every query function takes one as its first argument. */
export type Db = Kysely<Database>;

const int8Oid = 20;
const dateOid = 1082;

/** int8 as a number; a value past 2^53 is a bug and not a rounding. */
function parseInt8(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw new RangeError(`int8 out of range: ${text}`);
  return value;
}

/** A day has no time and no zone: it stays the text that it is, YYYY-MM-DD. */
const parsers: Readonly<Record<number, (text: string) => unknown>> = {
  [int8Oid]: parseInt8,
  [dateOid]: (text) => text,
};

const types = {
  getTypeParser: (oid: number, format?: "text" | "binary") =>
    (format !== "binary" ? parsers[oid] : undefined) ?? pg.types.getTypeParser(oid, format as "text"),
};

export interface DbOptions {
  url: string;
  /** Upper bound of connections; defaults to 10. */
  maxConnections?: number;
  /** How long a statement waits for a row that another transaction holds; 10 s by default. */
  lockTimeoutMs?: number;
  /** Told about errors of idle connections, which would otherwise end the process. */
  onError?: (error: Error) => void;
}

/** The pool that the whole process shares. Statements end after 30 s, waiting for a lock or a connection after 10 s. */
export function createPool({ url, maxConnections = 10, lockTimeoutMs = 10_000, onError }: DbOptions): pg.Pool {
  const pool = new pg.Pool({
    connectionString: url,
    max: maxConnections,
    types,
    statement_timeout: 30_000,
    lock_timeout: lockTimeoutMs,
    connectionTimeoutMillis: 10_000,
    idle_in_transaction_session_timeout: 60_000,
    application_name: "svc-control",
  });
  pool.on("error", (error) => onError?.(error));
  return withHeldErrorsHeard(pool);
}

/**
 * A connection that ends between two statements of a transaction fails the next one, and no more. The pool hears what goes
 * wrong with those that are idle, a statement what goes wrong under it; an error that nobody hears would end the process.
 */
export function withHeldErrorsHeard(pool: pg.Pool): pg.Pool {
  return pool.on("connect", (client) => void client.on("error", () => {}));
}

export function createDb(options: DbOptions): Db {
  return fromPool(createPool(options));
}

export const fromPool = (pool: pg.Pool): Db =>
  new Kysely<Database>({ dialect: new PostgresDialect({ pool: withPrepared(pool) }) });
