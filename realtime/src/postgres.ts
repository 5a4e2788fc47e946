import { randomHex } from "./machine.ts";
import type { RealtimeAdapter, RealtimeEvent } from "./options.ts";

const defaultChannel = "svc_realtime";
/** Of an event as it is sent. Postgres takes less than 8,000 bytes. */
const maxPayloadBytes = 7_500;
/** Of a channel's name: Postgres refuses to notify a longer one. */
const maxChannelBytes = 63;

/** What is used of a client of Postgres: `listen` and `notify` as postgres.js has them. */
export interface PostgresClient {
  listen(channel: string, onNotify: (payload: string) => void): PromiseLike<{ unlisten(): PromiseLike<unknown> }>;
  notify(channel: string, payload: string): PromiseLike<unknown>;
}

export type PostgresAdapterErrorCode =
  | "payload_too_large"
  | "notify_failed"
  | "listen_failed"
  | "unlisten_failed"
  | "malformed_message";

/** What went wrong, by its `code`; `cause` is what the client of Postgres said, where it said something. */
export class PostgresAdapterError extends Error {
  override readonly name = "PostgresAdapterError";
  readonly code: PostgresAdapterErrorCode;

  constructor(code: PostgresAdapterErrorCode, message: string, cause?: unknown) {
    super(message, { cause });
    this.code = code;
  }
}

export interface PostgresAdapterOptions {
  sql: PostgresClient;
  /** The channel of notifications, the same for all instances of an application. `svc_realtime` unless given. */
  channel?: string;
  onError?: (error: PostgresAdapterError) => void;
}

interface Envelope extends Required<RealtimeEvent> {
  /** Of the adapter that sent it. */
  origin: string;
}

/**
 * Carries events between instances by LISTEN and NOTIFY. Each notification is a statement of its own: within a transaction that
 * writes, NOTIFY holds a lock on the whole database until the commit is on disk.
 */
export function createPostgresAdapter({
  sql,
  channel = defaultChannel,
  onError,
}: PostgresAdapterOptions): RealtimeAdapter {
  const sizeOf = (text: string): number => new TextEncoder().encode(text).byteLength;
  if (channel === "" || sizeOf(channel) > maxChannelBytes) {
    throw new RangeError(`channel must have 1 to ${maxChannelBytes} bytes`);
  }
  /** Tells this adapter's own notifications, which Postgres sends to it as well. */
  const origin = randomHex(8);

  const report = (error: PostgresAdapterError): PostgresAdapterError => {
    // Whoever listens for faults must not become one.
    try {
      onError?.(error);
    } catch {}
    return error;
  };
  /** Runs a statement; what fails is told twice, to `onError` by its code and to whoever waits. */
  const attempt = async <T>(code: PostgresAdapterErrorCode, act: () => PromiseLike<T>): Promise<T> => {
    try {
      return await act();
    } catch (error) {
      throw report(new PostgresAdapterError(code, `${code}: ${error instanceof Error ? error.message : error}`, error));
    }
  };

  return {
    async publish({ channel: to, event = "message", data }) {
      const payload = JSON.stringify({ origin, channel: to, event, data: data ?? null } satisfies Envelope);
      const bytes = sizeOf(payload);
      if (bytes > maxPayloadBytes) {
        const text = `an event of ${bytes} bytes stays on this instance: ${maxPayloadBytes} are the most`;
        const error = report(new PostgresAdapterError("payload_too_large", text));
        // Somebody has to hear of it.
        if (onError === undefined) throw error;
        return;
      }
      await attempt("notify_failed", () => sql.notify(channel, payload));
    },

    async subscribe(onEvent) {
      const receive = (payload: string): void => {
        const envelope = readEnvelope(payload);
        if (envelope === null) report(new PostgresAdapterError("malformed_message", "a notification is no event"));
        else if (envelope.origin !== origin)
          onEvent({ channel: envelope.channel, event: envelope.event, data: envelope.data });
      };
      const listener = await attempt("listen_failed", () => sql.listen(channel, receive));
      return () => attempt("unlisten_failed", () => listener.unlisten());
    },
  };
}

function readEnvelope(payload: string): Envelope | null {
  try {
    const { origin, channel, event, data = null } = JSON.parse(payload) as Partial<Envelope>;
    const isWhole = typeof origin === "string" && typeof channel === "string" && typeof event === "string";
    return isWhole ? { origin, channel, event, data } : null;
  } catch {
    return null;
  }
}
