import { EtcdError, LeadershipLost, UnknownOutcome } from "@svc/control/stores/etcd/errors";
import type { Guard } from "@svc/control/stores/etcd/txn";
import type { Validity } from "@svc/control/stores/etcd/validity";
import { backOffMs } from "@svc/runtime/retry";
import { type Bell, createBell, pause, type Scope, type Work, wait } from "../kernel/kernel.ts";
import type { Op, TxnResult } from "./etcd.ts";
import { type EtcdClient, View } from "./etcd-client.ts";

/** A lease that is kept alive until it is revoked or lost: mirrors `control/src/stores/etcd/lease.ts`. */
export class HeldLease {
  isOver = false;
  private validity: Validity;
  private streamNumber = 0;
  private readonly listeners: (() => void)[] = [];

  private readonly client: EtcdClient;
  readonly id: bigint;
  private readonly scope: Scope;
  /** Every lease that somebody holds, for the checks. */
  private readonly held: Map<bigint, HeldLease>;

  constructor(client: EtcdClient, id: bigint, start: Validity, scope: Scope, held: Map<bigint, HeldLease>) {
    this.client = client;
    this.id = id;
    this.scope = scope;
    this.held = held;
    this.validity = start;
    held.set(id, this);
    this.check();
  }

  private get clockMs(): number {
    return this.client.process.bootMs();
  }

  /** By the clock and not by a timer. */
  remainingMs(): number {
    return this.isOver ? 0 : Math.max(0, this.validity.untilMs - this.clockMs);
  }

  get isHolderAlive(): boolean {
    return !this.scope.isOver;
  }

  onLost(listener: () => void): void {
    if (this.isOver) listener();
    else this.listeners.push(listener);
  }

  private check(): void {
    if (this.isOver || this.scope.isOver) return;
    this.act();
    if (!this.isOver) {
      this.scope.after(this.client.cores.lease.checkInMs(this.validity, this.clockMs), "lease check", () =>
        this.check(),
      );
    }
  }

  private act(): void {
    switch (this.client.cores.lease.leaseAction(this.validity, this.clockMs)) {
      case "lost":
        this.end();
        return;
      case "reopen":
      case "ask":
        this.ask();
        return;
      case "wait":
        return;
    }
  }

  private ask(): void {
    const { lease } = this.client.cores;
    this.streamNumber += 1;
    const mine = this.streamNumber;
    this.validity = lease.asked(this.validity, this.clockMs);
    this.client.keepAlive(this.id)(
      (ttlSeconds) => {
        if (this.isOver || mine !== this.streamNumber) return;
        const next = lease.answered(this.validity, ttlSeconds, this.clockMs);
        if (next === null) this.end();
        else this.validity = next;
      },
      () => {
        if (this.isOver || mine !== this.streamNumber) return;
        this.validity = lease.disconnected(this.validity, this.clockMs);
      },
      this.scope,
    );
  }

  private end(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.held.delete(this.id);
    for (const listener of this.listeners) listener();
  }

  revoke(): void {
    if (this.isOver) return;
    this.end();
    this.client.revoke(this.id);
  }
}

/** @throws EtcdError when none could be had */
export function* grantLease(
  client: EtcdClient,
  ttlMs: number,
  scope: Scope,
  held: Map<bigint, HeldLease>,
): Work<HeldLease> {
  const { id, sentAtMs, ttlSeconds } = yield* client.grant(ttlMs);
  const { lease } = client.cores;
  const start = lease.granted(sentAtMs, Math.min(ttlMs, Number(ttlSeconds) * 1000));
  if (lease.leaseAction(start, client.process.bootMs()) === "lost") {
    throw new EtcdError("TIMEOUT", "the lease was granted too late");
  }
  return new HeldLease(client, id, start, scope, held);
}

/** The right to decide: mirrors `control/src/stores/etcd/campaign.ts`. */
export class Leadership {
  isOver = false;
  private readonly client: EtcdClient;
  private readonly key: string;
  readonly epoch: bigint;
  private readonly serverId: string;
  private readonly lease: HeldLease;
  readonly scope: Scope;

  constructor(client: EtcdClient, key: string, epoch: bigint, serverId: string, lease: HeldLease, scope: Scope) {
    this.client = client;
    this.key = key;
    this.epoch = epoch;
    this.serverId = serverId;
    this.lease = lease;
    this.scope = scope;
  }

  /** By the clock. */
  get isHeld(): boolean {
    return !this.isOver && this.lease.remainingMs() > 0;
  }

  end(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.scope.end();
  }

  private refuse(): never {
    this.end();
    throw new LeadershipLost("no longer the leader");
  }

  *txn(ops: readonly Op[], guards: readonly Guard[] = []): Work<TxnResult> {
    if (!this.isHeld) return this.refuse();
    const result = yield* wait(
      this.client.txn({
        guards: [{ key: this.key, compare: "createRevision", value: this.epoch }, ...guards],
        ops,
        orElse: [{ get: { key: this.key } }],
        writer: { by: "leader", serverId: this.serverId, epoch: this.epoch },
      }),
    );
    if (!result.succeeded && result.reads[0]?.createRevision !== this.epoch) return this.refuse();
    return result.succeeded ? result : { ...result, reads: [] };
  }
}

const backOff = { firstMs: 100, maxMs: 8_000 };
const lookAgainMs = 60_000;

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
  const bell: Bell = createBell();
  const view = new View(client, key, (entry) => entry, scope);
  view.subscribe(() => bell.ring());

  function* candidate(): Work {
    const lease = yield* grantLease(client, ttlMs, scope, held);
    lease.onLost(() => bell.ring());
    try {
      while (!lease.isOver) {
        const result = yield* wait(
          client.txn({
            guards: [{ key, compare: "absent" }],
            ops: [{ put: { key, value: options.valueOf(id), leaseId: lease.id } }, { get: { key } }],
            orElse: [{ get: { key } }],
            writer: { by: "server", serverId: id },
          }),
        );
        const entry = result.reads[0];
        if (!entry) throw new EtcdError("REFUSED", "a claim without an answer");
        if (entry.leaseId === lease.id) return yield* hold(entry.createRevision, lease);
        const untilMs = client.process.monoMs() + lookAgainMs;
        for (;;) {
          const isVacant = view.revision >= entry.modRevision && view.get(key) === undefined;
          const leftMs = untilMs - client.process.monoMs();
          if (isVacant || lease.isOver || leftMs <= 0) break;
          yield* wait(bell.wait(leftMs));
        }
      }
    } finally {
      lease.revoke();
    }
  }

  function* hold(epoch: bigint, lease: HeldLease): Work {
    const leadership = new Leadership(client, key, epoch, id, lease, scope.child());
    const isGone = () => view.revision >= epoch && view.get(key)?.createRevision !== epoch;
    client.kernel.note(() => `${id} leads, epoch ${epoch}`);
    leadership.scope.onEnd(bell.ring);
    options.lead(leadership);
    while (!lease.isOver && !isGone() && !leadership.isOver) yield* wait(bell.wait(lookAgainMs));
    leadership.end();
    client.kernel.note(() => `${id} no longer leads, epoch ${epoch}`);
  }

  function* stand(): Work {
    let failures = 0;
    for (;;) {
      const startedAtMs = client.process.monoMs();
      try {
        yield* candidate();
      } catch (error) {
        if (!(error instanceof EtcdError || error instanceof UnknownOutcome)) throw error;
      }
      failures = client.process.monoMs() - startedAtMs > ttlMs ? 1 : failures + 1;
      yield* wait(pause(backOffMs(failures, backOff, client.process.random.next())));
    }
  }
  scope.spawn(stand());
}
