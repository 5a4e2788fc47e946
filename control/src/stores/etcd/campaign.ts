import type { Timer } from "@svc/runtime/clock";
import { backOffMs } from "@svc/runtime/retry";
import { pause } from "@svc/runtime/sleep";
import type { Etcd } from "./client.ts";
import type { Entry } from "./entry.ts";
import { EtcdError, LeadershipLost } from "./errors.ts";
import { oneKey } from "./key-range.ts";
import { grantLease, type Lease } from "./lease.ts";
import type { Guard, Op, TxnResult } from "./txn.ts";
import { type View, viewRange } from "./view.ts";

/** The right to decide, until `signal` aborts. */
export interface Leadership {
  /** The create revision of the leader key: higher for every later leader. */
  readonly epoch: bigint;
  /**
   * Aborts when the lease ends (by this side's clock, so before anybody else can lead), or on stop. It also aborts
   * when the key went otherwise, which only a foreign hand can cause; another may then lead before this side hears
   * of it, so nothing but the guard of `txn` (or a fence with `epoch`) protects a write.
   */
  readonly signal: AbortSignal;
  /** Whether the lease still runs by the clock, also when no timer could run for a while. */
  isHeld(): boolean;
  /**
   * Applies `ops` if this process still leads and `guards` hold.
   *
   * @returns `succeeded` false when one of the own guards did not hold.
   * @throws LeadershipLost (nothing was applied), UnknownOutcome, EtcdError.
   */
  txn(ops: readonly Op[], guards?: readonly Guard[]): Promise<TxnResult>;
}

export interface CampaignOptions {
  readonly etcd: Etcd;
  /** The one key of this election. */
  readonly key: string;
  /** Who this is: the value of the key. */
  readonly id: string;
  readonly ttlMs: number;
  /** Ends the campaign, and the leadership with it. */
  readonly signal: AbortSignal;
  /** The leader's work. It must end soon after `leadership.signal` aborts; returning earlier gives the office up. */
  lead(leadership: Leadership): Promise<void>;
}

const backOff = { firstMs: 100, maxMs: 8_000 };
/** A candidate looks again after this long, even when nothing seems to have changed. */
const lookAgainMs = 60_000;
const slowEndMs = 10_000;

/**
 * Tries to become the leader. The claim is bound to `lease`: when its outcome is not known, revoking the lease takes it
 * back, also if it is still on its way.
 *
 * @returns the entry of the key as it is now; ours if it carries our lease.
 */
async function claim({ etcd, key, id }: CampaignOptions, lease: Lease): Promise<Entry> {
  const result = await etcd.txn({
    guards: [{ key, compare: "absent" }],
    ops: [{ put: { key, value: id, leaseId: lease.id } }, { get: { key } }],
    orElse: [{ get: { key } }],
  });
  const entry = result.reads[0];
  if (!entry) throw new EtcdError("REFUSED", `etcd answered a claim without telling who holds ${key}`);
  return entry;
}

function leadershipOf(
  { etcd, key }: CampaignOptions,
  lease: Lease,
  epoch: bigint,
  ending: AbortController,
): Leadership {
  const refuse = () => {
    if (!ending.signal.aborted) ending.abort(new LeadershipLost("the leader key is no longer ours"));
    throw new LeadershipLost("no longer the leader", { cause: ending.signal.reason });
  };
  // The clock is asked and not only the signal: after a pause of the process no timer has run yet.
  const isHeld = () => !ending.signal.aborted && lease.remainingMs() > 0;
  return {
    epoch,
    signal: ending.signal,
    isHeld,
    async txn(ops, guards = []) {
      if (!isHeld()) return refuse();
      const result = await etcd.txn({
        guards: [{ key, compare: "createRevision", value: epoch }, ...guards],
        ops,
        orElse: [{ get: { key } }],
      });
      if (!result.succeeded && result.reads[0]?.createRevision !== epoch) return refuse();
      return result.succeeded ? result : { ...result, reads: [] };
    },
  };
}

/** Leads until the work ends or the office is lost; does not return while the work still runs. */
async function hold(options: CampaignOptions, lease: Lease, view: View<Entry>, epoch: bigint): Promise<void> {
  const { key, signal, lead, etcd } = options;
  const { clock, log } = etcd.connection;
  const ending = new AbortController();
  const end = (why: unknown) => {
    if (!ending.signal.aborted) ending.abort(new LeadershipLost("the leadership ended", { cause: why }));
  };
  const onLeaseEnd = () => end(lease.signal.reason);
  const onStop = () => end(signal.reason);
  const checkKey = () => {
    if (view.revision >= epoch && view.get(key)?.createRevision !== epoch) end("the leader key went");
  };
  lease.signal.addEventListener("abort", onLeaseEnd, { once: true });
  signal.addEventListener("abort", onStop, { once: true });
  const watching = view.subscribe(checkKey);
  if (lease.signal.aborted) onLeaseEnd();
  if (signal.aborted) onStop();
  checkKey();
  let slow: Timer | undefined;
  ending.signal.addEventListener("abort", () => {
    slow = clock.after(slowEndMs, () => log.warn({ epoch: String(epoch) }, "the leader's work does not end"));
  });
  try {
    if (!ending.signal.aborted) await lead(leadershipOf(options, lease, epoch, ending));
  } finally {
    watching[Symbol.dispose]();
    lease.signal.removeEventListener("abort", onLeaseEnd);
    signal.removeEventListener("abort", onStop);
    end("the leader's work ended");
    slow?.[Symbol.dispose]();
  }
}

/** One candidature: waits for its turn, then leads. */
async function candidate(options: CampaignOptions, view: View<Entry>): Promise<void> {
  const { etcd, key, id, ttlMs, signal } = options;
  await using lease = await grantLease(etcd, { ttlMs, signal });
  const either = AbortSignal.any([signal, lease.signal]);
  for (;;) {
    const entry = await claim(options, lease);
    if (entry.leaseId === lease.id) {
      const epoch = entry.createRevision;
      etcd.connection.log.info({ id, epoch: String(epoch) }, "leading");
      await hold(options, lease, view, epoch);
      etcd.connection.log.info({ id, epoch: String(epoch) }, "no longer leading");
      return;
    }
    // The view must have come as far as what was just read: before that an absent key means nothing.
    const vacant = () => view.revision >= entry.modRevision && view.get(key) === undefined;
    await view.waitFor(vacant, lookAgainMs, either).catch((error: unknown) => {
      if (!(error instanceof EtcdError && error.code === "TIMEOUT")) throw error;
    });
  }
}

/**
 * Stands for election under `key` until `signal` aborts, again and again: after a loss, after the work ended
 * or failed, after etcd was away. At most one candidate leads at any moment, and epochs rise.
 *
 * @returns after `signal` aborted (or the client was closed), the work has ended and the office is given up.
 * Never rejects.
 */
export async function campaign(options: CampaignOptions): Promise<void> {
  const { etcd, key, signal: stop } = options;
  const { connection } = etcd;
  const { clock, random } = connection;
  const signal = AbortSignal.any([stop, connection.closed]);
  await using view = viewRange(connection, oneKey(key), (_key, _value, entry) => entry, connection.log);
  let failures = 0;
  while (!signal.aborted) {
    const startedAtMs = clock.steadyMs();
    try {
      await candidate({ ...options, lead: (leadership) => options.lead(leadership), signal }, view);
    } catch (error) {
      if (!signal.aborted) connection.log.warn({ err: error }, "the candidature ended; standing again");
    }
    // What held for longer than a lease was no failure to begin with.
    failures = clock.steadyMs() - startedAtMs > options.ttlMs ? 1 : failures + 1;
    await pause(clock, backOffMs(failures, backOff, random.next()), signal);
  }
}
