import type { Clock } from "@svc/runtime/clock";
import { pause } from "@svc/runtime/sleep";
import { version } from "@svc/runtime/version";
import type { Log } from "../../log.ts";
import { type Etcd, grantLease, type Lease } from "../../stores/etcd/index.ts";
import { offsetToTell } from "./clock-skew.ts";
import { keys, type ServerValue } from "./keys.ts";

export const serverTtlMs = 6_000;
const clockEveryMs = 60_000;
const againMs = 500;

/** A replica that says in etcd that it is there. */
export interface Announced extends AsyncDisposable {
  /** Whether the key certainly holds, by the clock and not by what etcd says. */
  isAnnounced(): boolean;
}

/** Keeps `servers/<id>` alive, so that everybody can tell streams of a living replica from those of a dead one. */
export function announceServer({
  clock,
  etcd,
  log,
  serverId,
  startedAt,
  masterKeyIds,
  address,
  readOffsetMs = async () => null,
}: {
  clock: Clock;
  etcd: Etcd;
  log: Log;
  serverId: string;
  startedAt: Date;
  masterKeyIds: readonly string[];
  /** Where it serves the API, as host:port; null when that is not known yet. */
  address: string | null;
  /** By how many ms this replica's clock is ahead of the one that all share; null when that cannot be told. */
  readOffsetMs?: () => Promise<number | null>;
}): Announced {
  const stop = new AbortController();
  const value: ServerValue = {
    serverId,
    startedAt: startedAt.toISOString(),
    masterKeyIds: [...masterKeyIds],
    version,
    ...(address !== null && { address }),
  };

  let clockOffsetMs: number | null = null;
  /** By which the key is there. */
  let announced: Lease | null = null;

  async function announce(): Promise<void> {
    while (!stop.signal.aborted) {
      let lease: Lease | null = null;
      try {
        const granted = await grantLease(etcd, { ttlMs: serverTtlMs });
        lease = granted;
        const ended = AbortSignal.any([stop.signal, granted.signal]);
        // Written once, and again only when the clock goes wrong or right.
        for (let told: string | null = null; !ended.aborted; ) {
          const offset = clockOffsetMs === null ? {} : { clockOffsetMs };
          const text = JSON.stringify({ ...value, ...offset } satisfies ServerValue);
          if (text !== told)
            await etcd.txn({
              guards: [],
              ops: [{ put: { key: keys.server(serverId), value: text, leaseId: granted.id } }],
            });
          told = text;
          announced = granted;
          await pause(clock, clockEveryMs, ended);
          const readMs = ended.aborted ? null : await readOffsetMs().catch(() => null);
          if (readMs !== null) clockOffsetMs = offsetToTell(readMs, clockOffsetMs);
        }
      } catch (error) {
        if (!stop.signal.aborted) log.warn({ err: error }, "this replica is not announced in etcd; trying again");
      }
      announced = null;
      await lease?.revoke();
      await pause(clock, againMs, stop.signal);
    }
  }
  const announcing = announce();
  return {
    isAnnounced: () => announced !== null && announced.remainingMs() > 0,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await announcing;
    },
  };
}
