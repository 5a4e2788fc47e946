import pg from "pg";
import type { Log } from "../log.ts";

/** Postgres notifications on one connection per process, with reconnection. */
export interface Listener extends AsyncDisposable {
  /** Calls back with each payload; after a reconnection once with "" because some may have been missed. */
  on(channel: string, callback: (payload: string) => void): Disposable;
}

const reconnectAfterMs = 500;

/**
 * Opens the connection in the background: notifications only speed things up,
 * every consumer also looks by itself from time to time.
 */
export function createListener(databaseUrl: string, log: Log): Listener {
  const callbacks = new Map<string, Set<(payload: string) => void>>();
  let client: pg.Client | null = null;
  let closed = false;
  let timer: NodeJS.Timeout | null = null;

  // One after another: a connection does one thing at a time.
  let listening: Promise<unknown> = Promise.resolve();
  const listen = (channel: string): Promise<unknown> => {
    listening = listening.then(() => client?.query(`listen ${pg.escapeIdentifier(channel)}`)).catch(() => undefined);
    return listening;
  };

  async function connect(): Promise<void> {
    if (closed) return;
    const next = new pg.Client({
      connectionString: databaseUrl,
      application_name: "svc-listen",
      keepAlive: true,
      connectionTimeoutMillis: 10_000,
    });
    const lost = () => {
      if (client !== next && client !== null) return;
      client = null;
      if (!closed && timer === null) {
        timer = setTimeout(() => {
          timer = null;
          void connect();
        }, reconnectAfterMs);
      }
    };
    next.on("error", (error) => log.warn({ err: error }, "notification connection lost"));
    next.on("end", lost);
    next.on("notification", ({ channel, payload }) => {
      for (const callback of callbacks.get(channel) ?? []) callback(payload ?? "");
    });
    try {
      await next.connect();
      if (closed) return void (await next.end());
      client = next;
      for (const channel of callbacks.keys()) await listen(channel);
      for (const each of callbacks.values()) for (const callback of each) callback("");
    } catch {
      await next.end().catch(() => undefined);
      lost();
    }
  }
  void connect();

  return {
    on(channel, callback) {
      const known = callbacks.get(channel);
      if (known) known.add(callback);
      else {
        callbacks.set(channel, new Set([callback]));
        void listen(channel);
      }
      return { [Symbol.dispose]: () => void callbacks.get(channel)?.delete(callback) };
    },
    async [Symbol.asyncDispose]() {
      closed = true;
      if (timer !== null) clearTimeout(timer);
      await client?.end().catch(() => undefined);
    },
  };
}
