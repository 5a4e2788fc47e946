import type { RealtimeAdapter } from "./options.ts";
/** What is used of a client of Postgres: `listen` and `notify` as postgres.js has them. */
export interface PostgresClient {
    listen(channel: string, onNotify: (payload: string) => void): PromiseLike<{
        unlisten(): PromiseLike<unknown>;
    }>;
    notify(channel: string, payload: string): PromiseLike<unknown>;
}
export type PostgresAdapterErrorCode = "payload_too_large" | "notify_failed" | "listen_failed" | "unlisten_failed" | "malformed_message";
/** What went wrong, by its `code`; `cause` is what the client of Postgres said, where it said something. */
export declare class PostgresAdapterError extends Error {
    readonly name = "PostgresAdapterError";
    readonly code: PostgresAdapterErrorCode;
    constructor(code: PostgresAdapterErrorCode, message: string, cause?: unknown);
}
export interface PostgresAdapterOptions {
    sql: PostgresClient;
    /** The channel of notifications, the same for all instances of an application. `svc_realtime` unless given. */
    channel?: string;
    onError?: (error: PostgresAdapterError) => void;
}
/**
 * Carries events between instances by LISTEN and NOTIFY. Each notification is a statement of its own: within a transaction that
 * writes, NOTIFY holds a lock on the whole database until the commit is on disk.
 */
export declare function createPostgresAdapter({ sql, channel, onError, }: PostgresAdapterOptions): RealtimeAdapter;
