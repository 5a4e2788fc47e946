import type { Clock } from "@svc/runtime/clock";
import { createLimiter } from "@svc/runtime/limiter";
import type { Random } from "@svc/runtime/random";
import { backOffMs } from "@svc/runtime/retry";
import { pause } from "@svc/runtime/sleep";
import { type Entry, type Etcd, type Guard, type Op, type TxnResult, UnknownOutcome } from "../../stores/etcd/index.ts";

/** Another stream speaks for the daemon now, or its key was taken away. Nothing was written. */
export class SessionLost extends Error {
  override readonly name = "SessionLost";
}

/**
 * The right to write for one daemon: its session key at the revision that this stream gave it.
 * Every write carries that revision as a guard, so whatever a superseded stream still has in its
 * hands comes to nothing.
 */
export interface SessionKey {
  /** The session epoch: the revision at which the key was taken. */
  readonly epoch: bigint;
  /**
   * Applies `ops` while the session is this one and `guards` hold; `succeeded` false: one of the guards did not.
   * Throws `SessionLost`, and etcd's errors.
   */
  write(ops: readonly Op[], guards?: readonly Guard[]): Promise<TxnResult>;
  /** Writes another value of the key itself. */
  update(value: string): Promise<void>;
  /**
   * Deletes the key if it is still this session's. Tries until it is certain, or once more after `stopping` aborts:
   * a key that stayed would make a silent node look connected, until its whole replica is gone.
   */
  release(stopping: AbortSignal): Promise<void>;
}

/** Where session keys are, and what paces the attempts to let go of them. */
export interface SessionStore {
  clock: Clock;
  random: Random;
  etcd: Etcd;
}

const claimAttempts = 5;
const releaseBackOff = { firstMs: 200, maxMs: 5_000 };
const waitingWrites = 1_000;

/**
 * Takes the session key for a new stream; the newest wins. `also` is written with it. A stream that was
 * delayed past a newer one does not win: the key must be the one that it found when it came.
 */
export async function takeSessionKey(
  store: SessionStore,
  {
    key,
    valueAfter,
    also = [],
    signal,
    stopping,
    forgetAfterMs = 0,
  }: {
    key: string;
    /** The value to write over the one that is there (null: none). It must name this stream and no other. */
    valueAfter: (before: string | null) => string;
    also?: readonly Op[];
    signal: AbortSignal;
    stopping: AbortSignal;
    /** How long a key that may have been written, and that nobody holds, stays. */
    forgetAfterMs?: number;
  },
): Promise<SessionKey> {
  const { etcd } = store;
  for (let attempt = 1; attempt <= claimAttempts; attempt += 1) {
    signal.throwIfAborted();
    const before = await etcd.get(key);
    const value = valueAfter(before?.value ?? null);
    const guard: Guard =
      before === null ? { key, compare: "absent" } : { key, compare: "modRevision", value: before.modRevision };
    try {
      const { succeeded, revision } = await etcd.txn({ guards: [guard], ops: [{ put: { key, value } }, ...also] });
      if (succeeded) return heldKey(store, key, revision);
    } catch (error) {
      if (!(error instanceof UnknownOutcome)) throw error;
      // The value names this very stream: if it is there, the write went through.
      const after = await etcd.get(key).catch((failure: unknown) => {
        void forget(store, { key, value, stopping, afterMs: forgetAfterMs });
        throw failure;
      });
      if (after?.value === value) return heldKey(store, key, after.modRevision);
    }
  }
  throw new SessionLost(`other streams keep taking ${key}`);
}

function heldKey(store: SessionStore, key: string, epoch: bigint): SessionKey {
  const { etcd } = store;
  // Writes follow one another: one that changes the key moves the guard of those after it.
  const inOrder = createLimiter({ total: 1 }, { total: waitingWrites });
  let revision = epoch;
  /** Values that were sent under this revision. Any may have gone through without an answer, or do so late; never two. */
  const sent = new Set<string>();

  function moveTo(next: bigint): void {
    revision = next;
    sent.clear();
  }

  /** Whether the key is as much ours as before, also with a value whose outcome was never learned. */
  function isOurs(found: Entry | null | undefined): found is Entry {
    if (found == null) return false;
    if (found.modRevision === revision) return true;
    if (!sent.has(found.value)) return false;
    moveTo(found.modRevision);
    return true;
  }

  /** @param value the one that `ops` give the key itself */
  async function guarded(ops: readonly Op[], guards: readonly Guard[], value?: string): Promise<TxnResult> {
    for (;;) {
      if (value !== undefined) sent.add(value);
      const result = await etcd.txn({
        guards: [{ key, compare: "modRevision", value: revision }, ...guards],
        ops,
        orElse: [{ get: { key } }],
      });
      const [found] = result.reads;
      if (result.succeeded || found?.modRevision === revision) return result;
      if (!isOurs(found)) throw new SessionLost(`${key} was taken over`);
    }
  }

  return {
    epoch,
    write: (ops, guards = []) => inOrder(() => guarded(ops, guards)),
    update: (value) =>
      inOrder(async () => {
        try {
          moveTo((await guarded([{ put: { key, value } }], [], value)).revision);
        } catch (error) {
          if (!(error instanceof UnknownOutcome)) throw error;
          const after = await etcd.get(key);
          if (!isOurs(after)) throw new SessionLost(`${key} was taken over`);
          if (after.value !== value) throw error;
        }
      }),
    release: (stopping) =>
      inOrder(() =>
        untilCertain(store, stopping, async () => {
          await guarded([{ delete: { key } }], []);
        }),
      ),
  };
}

/** Deletes what a write of unknown outcome may have left behind, once the lease that it wrote over would be over. */
async function forget(
  store: SessionStore,
  { key, value, stopping, afterMs }: { key: string; value: string; stopping: AbortSignal; afterMs: number },
): Promise<void> {
  const { etcd } = store;
  await pause(store.clock, afterMs, stopping);
  await untilCertain(store, stopping, async () => {
    const entry = await etcd.get(key);
    if (entry?.value !== value) return;
    await etcd.txn({
      guards: [{ key, compare: "modRevision", value: entry.modRevision }],
      ops: [{ delete: { key } }],
    });
  });
}

/** Repeats a deletion until it is done or no longer ours to do. Never rejects. */
async function untilCertain(
  { clock, random }: SessionStore,
  stopping: AbortSignal,
  step: () => Promise<void>,
): Promise<void> {
  for (let failures = 1; ; failures += 1) {
    try {
      return await step();
    } catch (error) {
      if (error instanceof SessionLost || stopping.aborted) return;
      await pause(clock, backOffMs(failures, releaseBackOff, random.next()), stopping);
    }
  }
}
