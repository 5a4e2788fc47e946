import { grantLease as grant } from "@svc/control/stores/etcd/index";
import { createBell, type Scope, type Work, wait, waitFor } from "../kernel/kernel.ts";
import type { EtcdClient } from "./etcd-client.ts";

/** What somebody counts on, for the checks. */
export interface HeldLease {
  readonly isHolderAlive: boolean;
  isHeld(): boolean;
}

/** The product's lease, as a loop that is still a generator waits for its end. */
interface Lease {
  readonly id: bigint;
  remainingMs(): number;
  ended(): Work;
}

/** @throws EtcdError when none could be had */
export function* grantLease(
  client: EtcdClient,
  ttlMs: number,
  scope: Scope,
  held: Map<bigint, HeldLease>,
): Work<Lease> {
  const lease = yield* wait(waitFor(() => grant(client.etcd, { ttlMs })));
  const { id, signal } = lease;
  held.set(id, {
    get isHolderAlive() {
      return !scope.isOver;
    },
    isHeld: () => lease.remainingMs() > 0,
  });
  const bell = createBell();
  signal.addEventListener("abort", () => {
    held.delete(id);
    bell.ring();
  });
  return {
    id,
    remainingMs: lease.remainingMs,
    *ended() {
      while (!signal.aborted) yield* wait(bell.wait(60_000));
    },
  };
}
