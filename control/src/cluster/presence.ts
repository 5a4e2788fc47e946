import type { z } from "zod";
import { type Etcd, grantLease, type Lease } from "../etcd/index.ts";
import type { Log } from "../log.ts";
import { createBell } from "../wake.ts";
import { keys, type serverValue } from "./keys.ts";

const serverTtlMs = 6_000;

/** Keeps `servers/<id>` alive, so that everybody can tell streams of a living replica from those of a dead one. */
export function announceServer({
  etcd,
  log,
  serverId,
  startedAt,
  masterKeyIds,
}: {
  etcd: Etcd;
  log: Log;
  serverId: string;
  startedAt: Date;
  masterKeyIds: readonly string[];
}): AsyncDisposable {
  const stop = new AbortController();
  const value: z.infer<typeof serverValue> = {
    serverId,
    startedAt: startedAt.toISOString(),
    masterKeyIds: [...masterKeyIds],
  };

  async function announce(): Promise<void> {
    while (!stop.signal.aborted) {
      let lease: Lease | null = null;
      try {
        lease = await grantLease(etcd, { ttlMs: serverTtlMs });
        const put = { put: { key: keys.server(serverId), value: JSON.stringify(value), leaseId: lease.id } };
        await etcd.txn({ guards: [], ops: [put] });
        const ended = AbortSignal.any([stop.signal, lease.signal]);
        if (!ended.aborted)
          await new Promise<void>((resolve) => ended.addEventListener("abort", () => resolve(), { once: true }));
      } catch (error) {
        if (!stop.signal.aborted) log.warn({ err: error }, "this replica is not announced in etcd; trying again");
      }
      await lease?.revoke();
      await createBell().wait(500, stop.signal);
    }
  }
  const announcing = announce();
  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      await announcing;
    },
  };
}
