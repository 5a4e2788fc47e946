import * as product from "@svc/control/stores/etcd/index";
import { createBell, type Scope, type Work, wait, waitFor } from "../kernel/kernel.ts";
import { enter } from "../kernel/ports.ts";
import type { Op, TxnResult } from "./etcd.ts";
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
  const lease = yield* wait(waitFor(() => product.grantLease(client.etcd, { ttlMs })));
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

/** The product's right to decide, for loops that are still generators: what they do ends with its scope. */
export class Leadership {
  readonly epoch: bigint;
  readonly scope: Scope;
  private readonly client: EtcdClient;
  private readonly serverId: string;
  private readonly office: product.Leadership;

  constructor(client: EtcdClient, serverId: string, office: product.Leadership, scope: Scope) {
    this.client = client;
    this.serverId = serverId;
    this.office = office;
    this.epoch = office.epoch;
    this.scope = scope;
  }

  /** By the clock. */
  get isHeld(): boolean {
    return this.office.isHeld();
  }

  *txn(ops: readonly Op[], guards: readonly product.Guard[] = []): Work<TxnResult> {
    const writer = { by: "leader", serverId: this.serverId, epoch: this.epoch } as const;
    return yield* wait(waitFor(() => this.client.as(writer, () => this.office.txn(ops, guards))));
  }
}

/** Stands for election for ever; `lead` begins the leader's work in the scope of the leadership. */
export function campaign(options: {
  client: EtcdClient;
  key: string;
  id: string;
  valueOf: (id: string) => string;
  ttlMs: number;
  scope: Scope;
  held: Map<bigint, HeldLease>;
  lead: (leadership: Leadership) => void;
}): void {
  const { client, key, id, ttlMs, scope, held } = options;
  const { kernel, process, store } = client;
  const stopping = new AbortController();
  scope.onEnd(() => stopping.abort());

  async function lead(office: product.Leadership): Promise<void> {
    const leadership = new Leadership(client, id, office, scope.child());
    const leaseId = store.get(key)?.leaseId ?? 0n;
    kernel.note(() => `${id} leads, epoch ${office.epoch}`);
    held.set(leaseId, {
      get isHolderAlive() {
        return !scope.isOver;
      },
      isHeld: office.isHeld,
    });
    options.lead(leadership);
    await new Promise<void>((resolve) => {
      office.signal.addEventListener("abort", () => resolve(), { once: true });
      if (office.signal.aborted) resolve();
    });
    held.delete(leaseId);
    leadership.scope.end();
    kernel.note(() => `${id} no longer leads, epoch ${office.epoch}`);
  }

  enter(process, () => {
    void product.campaign({
      ...{ etcd: client.etcd, key, id: options.valueOf(id), ttlMs, signal: stopping.signal, lead },
    });
  });
}
