import { onAbort } from "@svc/runtime/on-abort";
import type { Log } from "../../log.ts";
import type { Etcd } from "./client.ts";
import type { Connection } from "./connection.ts";
import { snapshotChanges } from "./diff.ts";
import type { Entry, WatchEvent } from "./entry.ts";
import { EtcdError } from "./errors.ts";
import { type KeyRange, underPrefix } from "./key-range.ts";
import { watchRange } from "./watch.ts";

/** A value of a view that appeared, changed (`previous` is the old value) or went. */
export type Change<T> =
  | { readonly type: "put"; readonly key: string; readonly value: T; readonly previous: T | undefined }
  | { readonly type: "delete"; readonly key: string; readonly previous: T };

/** The decoded values under a prefix, kept up to date by one watch. Reads never wait and may be a moment behind. */
export interface View<T> extends AsyncDisposable {
  /** Waits for the first snapshot. @throws EtcdError TIMEOUT after `timeoutMs` (default 30 s), CLOSED. */
  ready(timeoutMs?: number): Promise<void>;
  /** The value of `key`, undefined when absent (or when its value does not decode). */
  get(key: string): T | undefined;
  entries(): IterableIterator<[string, T]>;
  /** The revision of the newest change seen; 0n before the first snapshot. */
  readonly revision: bigint;
  /** Calls back after every real change, also those found by comparing with a snapshot. */
  subscribe(callback: (changes: readonly Change<T>[], revision: bigint) => void): Disposable;
  /**
   * Waits until `predicate` returns something other than false, null or undefined, and returns that. Tried at
   * once and after each change, also when no decoded value changed.
   *
   * @throws EtcdError TIMEOUT after `timeoutMs`, CLOSED when the view is closed; the reason of `signal`.
   */
  waitFor<R>(
    predicate: (view: View<T>) => R | false | null | undefined,
    timeoutMs: number,
    signal?: AbortSignal,
  ): Promise<R>;
  /** Stops the watch; no callback after this. */
  close(): Promise<void>;
}

/** Turns an entry into a value. Throwing marks it as absent, until the next change of the key; it is logged. */
export type Decode<T> = (key: string, value: string, entry: Entry) => T;

export interface ViewOptions {
  /** Default: the client's. */
  readonly log?: Log;
}

const readyTimeoutMs = 30_000;

/** `createView` of any range of keys. */
export function viewRange<T>(connection: Connection, range: KeyRange, decode: Decode<T>, log: Log): View<T> {
  const raw = new Map<string, Entry>();
  const values = new Map<string, T>();
  const subscribers = new Set<(changes: readonly Change<T>[], revision: bigint) => void>();
  const waiters = new Set<() => void>();
  const stopping = new AbortController();
  let revision = 0n;

  function decodeEntry(entry: Entry): { value: T } | null {
    try {
      return { value: decode(entry.key, entry.value, entry) };
    } catch (error) {
      log.error(
        { err: error, etcdKey: entry.key, modRevision: String(entry.modRevision) },
        "an etcd value does not decode",
      );
      return null;
    }
  }

  function applyEvent(event: WatchEvent): Change<T>[] {
    const decoded = event.type === "put" ? decodeEntry(event.entry) : null;
    if (event.type === "put") raw.set(event.key, event.entry);
    else raw.delete(event.key);
    const { key } = event;
    const previous = values.get(key);
    if (decoded !== null) {
      values.set(key, decoded.value);
      return [{ type: "put", key, value: decoded.value, previous }];
    }
    return values.delete(key) && previous !== undefined ? [{ type: "delete", key, previous }] : [];
  }

  function apply(events: readonly WatchEvent[], at: bigint): void {
    const changes = events.flatMap(applyEvent);
    revision = at;
    if (changes.length > 0) {
      for (const callback of [...subscribers]) {
        try {
          callback(changes, at);
        } catch (error) {
          log.error({ err: error }, "a subscriber of an etcd view failed");
        }
      }
    }
    for (const wake of [...waiters]) wake();
  }

  const watching = watchRange(connection, range, {
    onSnapshot: (entries, at) => apply(snapshotChanges(raw, entries, at), at),
    onEvents: apply,
    signal: stopping.signal,
  });
  const ended = AbortSignal.any([stopping.signal, connection.closed]);
  const close = async () => {
    stopping.abort(new EtcdError("CLOSED", "the etcd view is closed"));
    await watching;
  };

  const view: View<T> = {
    async ready(timeoutMs = readyTimeoutMs) {
      await view.waitFor(() => revision > 0n, timeoutMs);
    },
    get: (key) => values.get(key),
    entries: () => values.entries(),
    get revision() {
      return revision;
    },
    subscribe(callback) {
      const own: typeof callback = (changes, at) => callback(changes, at);
      subscribers.add(own);
      return { [Symbol.dispose]: () => void subscribers.delete(own) };
    },
    waitFor(predicate, timeoutMs, signal) {
      return new Promise((resolve, reject) => {
        const settle = (finish: () => void) => {
          waiters.delete(check);
          timer[Symbol.dispose]();
          leaveEnded();
          leaveSignal?.();
          finish();
        };
        const check = () => {
          try {
            const result = predicate(view);
            if (result !== false && result !== null && result !== undefined) settle(() => resolve(result));
          } catch (error) {
            settle(() => reject(error));
          }
        };
        const onClosed = () => settle(() => reject(new EtcdError("CLOSED", "the etcd view is closed")));
        const onAborted = () => settle(() => reject(signal?.reason));
        const timer = connection.clock.after(timeoutMs, () => {
          settle(() => reject(new EtcdError("TIMEOUT", `not seen in etcd within ${timeoutMs} ms`)));
        });
        waiters.add(check);
        const leaveEnded = onAbort(ended, onClosed);
        const leaveSignal = signal && onAbort(signal, onAborted);
        if (ended.aborted) onClosed();
        else if (signal?.aborted) onAborted();
        else check();
      });
    },
    close,
    [Symbol.asyncDispose]: close,
  };
  return view;
}

/** A view of everything under `prefix`. It starts at once and lives until it or the client is closed. */
export const createView = <T>(etcd: Etcd, prefix: string, decode: Decode<T>, options: ViewOptions = {}): View<T> =>
  viewRange(etcd.connection, underPrefix(prefix), decode, options.log ?? etcd.connection.log);
