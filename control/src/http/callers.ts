import { createBatch } from "@svc/runtime/batch";
import type { Clock } from "@svc/runtime/clock";
import pg from "pg";
import type { Log } from "../log.ts";
import type { Db } from "../stores/db/pool.ts";
import {
  type Caller,
  type KeyRow,
  keyCaller,
  keysQuery,
  type Lookup,
  type SessionRow,
  sessionsQuery,
  signedInCaller,
  type UserRow,
} from "./caller.ts";
import { hashKey } from "./credentials.ts";
import { createLastUsed } from "./last-used.ts";

/** Looks up who makes requests, many at once. */
export interface Callers extends AsyncDisposable {
  /**
   * Whose credential it is; null when it is unknown, expired, or its user is banned. What is said was true after the
   * call was made: nothing is remembered, so a revoked key and a ban bite at once. Rejects when the database does not
   * answer in time, and with `Crowded`.
   */
  find(lookup: Lookup): Promise<Caller | null>;
}

export interface CallersOptions {
  clock: Clock;
  databaseUrl: string;
  /** Where the last use of keys is written, apart from the lookups. */
  db: Db;
  log: Log;
}

/** Twice as many cost hardly less each, and those who are answered together are answered late together. */
const sizeMax = 64;
const waitingMax = 4096;
/** For a connection, and for an answer. */
const timeoutMs = 5_000;

/**
 * The lookups have connections of their own, one per kind of credential: who is asking is known also while every other
 * connection is in use, and their statements stay prepared.
 */
export function createCallers({ clock, databaseUrl, db, log }: CallersOptions): Callers {
  const pool = new pg.Pool({
    connectionString: databaseUrl,
    max: 2,
    connectionTimeoutMillis: timeoutMs,
    query_timeout: timeoutMs,
    statement_timeout: timeoutMs,
    application_name: "svc-callers",
  });
  pool.on("error", (error) => log.warn({ err: error }, "idle connection of the lookups failed"));
  const lastUsed = createLastUsed({ clock, db, log });

  async function rows<T extends UserRow>(
    name: string,
    text: string,
    values: readonly (string | Buffer)[],
  ): Promise<T[]> {
    return (await pool.query<T>({ name, text, values: [values] })).rows;
  }
  const inOrder = <T extends UserRow>(count: number, found: readonly T[], make: (row: T) => Caller) => {
    const callers = new Array<Caller | null>(count).fill(null);
    for (const row of found) callers[row.at - 1] = make(row);
    return callers;
  };
  const find = {
    key: createBatch<Caller>({
      clock,
      sizeMax,
      waitingMax,
      async ask(keys) {
        const found = await rows<KeyRow>("callers-by-key", keysQuery, keys.map(hashKey));
        for (const { stale, tokenId } of found) if (stale) lastUsed.note(tokenId);
        return inOrder(keys.length, found, keyCaller);
      },
    }),
    session: createBatch<Caller>({
      clock,
      sizeMax,
      waitingMax,
      ask: async (tokens) =>
        inOrder(tokens.length, await rows<SessionRow>("callers-by-session", sessionsQuery, tokens), signedInCaller),
    }),
  };
  return {
    find: ({ kind, secret }) => find[kind](secret),
    async [Symbol.asyncDispose]() {
      await lastUsed[Symbol.asyncDispose]();
      await pool.end();
    },
  };
}
