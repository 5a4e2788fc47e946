import type { Clock, Timer } from "@svc/runtime/clock";
import pg from "pg";
import type { Log } from "../../log.ts";

/** Postgres notifications on one connection per process, with reconnection. */
export interface Listener extends AsyncDisposable {
  /** Calls back with each payload; after a reconnection once with "" because some may have been missed. */
  on(topic: string, callback: (payload: string) => void): Disposable;
}

const reconnectAfterMs = 500;

/**
 * Opens the connection in the background: notifications only speed things up,
 * every consumer also looks by itself from time to time.
 */
export function createListener(clock: Clock, databaseUrl: string, log: Log): Listener {
  const callbacks = new Map<string, Set<(payload: string) => void>>();
  let client: pg.Client | null = null;
  let closed = false;
  let timer: Timer | null = null;

  // One after another: a connection does one thing at a time.
  let listening: Promise<unknown> = Promise.resolve();
  const listen = (topic: string): Promise<unknown> => {
    listening = listening.then(() => client?.query(`listen ${pg.escapeIdentifier(topic)}`)).catch(() => undefined);
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
        timer = clock.after(reconnectAfterMs, () => {
          timer = null;
          void connect();
        });
      }
    };
    next.on("error", (error) => log.warn({ err: error }, "notification connection lost"));
    next.on("end", lost);
    next.on("notification", ({ channel: topic, payload }) => {
      for (const callback of callbacks.get(topic) ?? []) callback(payload ?? "");
    });
    try {
      await next.connect();
      if (closed) return void (await next.end());
      client = next;
      for (const topic of callbacks.keys()) await listen(topic);
      for (const each of callbacks.values()) for (const callback of each) callback("");
    } catch {
      await next.end().catch(() => undefined);
      lost();
    }
  }
  void connect();

  return {
    on(topic, callback) {
      const known = callbacks.get(topic);
      if (known) known.add(callback);
      else {
        callbacks.set(topic, new Set([callback]));
        void listen(topic);
      }
      return { [Symbol.dispose]: () => void callbacks.get(topic)?.delete(callback) };
    },
    async [Symbol.asyncDispose]() {
      closed = true;
      timer?.[Symbol.dispose]();
      await client?.end().catch(() => undefined);
    },
  };
}
