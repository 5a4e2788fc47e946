import { type Clock, every } from "@svc/runtime/clock";
import { runLoop } from "@svc/runtime/loop";
import { createWake } from "@svc/runtime/wake";
import type { Log } from "../../log.ts";
import type { Metrics } from "../../metrics/metrics.ts";
import type { Listener } from "../db/listen.ts";
import type { Db } from "../db/pool.ts";
import { type ClaimedWork, claimWork, finishWork, reapWork, renewWork, type WorkOutcome, workTopic } from "./queue.ts";

/**
 * Does one item. It may be called again for the same item after a crash, so every effect is
 * repeatable. It ends early, without harm, when `signal` is aborted (lost lease or shutdown).
 */
export type WorkHandler = (item: ClaimedWork, signal: AbortSignal) => Promise<WorkOutcome>;

/** Kinds of work that share room, so that those of another group always find theirs. */
export interface WorkGroup {
  /** By kind. */
  handlers: Readonly<Record<string, WorkHandler>>;
  /** Items in progress at once in this process. */
  concurrency: number;
}

export interface WorkersOptions {
  clock: Clock;
  db: Db;
  listener: Listener;
  log: Log;
  /** Unique per process. */
  owner: string;
  groups: readonly WorkGroup[];
  /** How long a killed worker's item stays taken. */
  leaseMs: number;
  metrics?: Pick<Metrics, "workFinished">;
  /** Whether other replicas are the ones to do it: what is under way is left to them, and nothing more is claimed. */
  isCutOff?: () => boolean;
  /** Called every second or so: the queue is looked after. */
  onTurn?: () => void;
}

/** A planned wait is no more than that. */
function outcomeWord(outcome: WorkOutcome): "done" | "failed" | "waits" | "again" {
  if ("state" in outcome) return outcome.state;
  return outcome.refund ? "waits" : "again";
}

/** Claims under way at once while each finds something: one after the other, a burst would wait for its claims most of all. */
const claimsMax = 8;

const retryDelayMs = (attempt: number) => Math.min(500 * 2 ** (attempt - 1), 60_000);

/** Claims and does work until disposed; disposing gives unfinished items back. */
export function startWorkers(options: WorkersOptions): AsyncDisposable {
  const { clock, db, log, owner, groups, leaseMs } = options;
  const stop = new AbortController();
  const isCutOff = options.isCutOff ?? (() => false);

  async function outcomeOf(
    item: ClaimedWork,
    handler: WorkHandler | undefined,
    signal: AbortSignal,
  ): Promise<WorkOutcome> {
    if (handler === undefined) return { state: "failed", error: `unknown kind of work: ${item.kind}` };
    try {
      return await handler(item, signal);
    } catch (error) {
      if (stop.signal.aborted) return { retryAfterMs: 0, refund: true };
      const message = error instanceof Error ? error.message : String(error);
      log.error(
        { err: error, workItem: item.id, kind: item.kind, workKey: item.key, attempt: item.attempt },
        "work failed",
      );
      return item.attempt >= item.maxAttempts
        ? { state: "failed", error: message }
        : { retryAfterMs: retryDelayMs(item.attempt), error: message };
    }
  }

  /** `claimedAt` is from before the claim was sent: the lease cannot end later than a lease after it. */
  async function work(item: ClaimedWork, handler: WorkHandler | undefined, claimedAt: number): Promise<void> {
    const lost = new AbortController();
    let answeredAt = claimedAt;
    const renew = async () => {
      const sentAt = clock.steadyMs();
      if (!(await renewWork(db, item, owner, leaseMs))) lost.abort();
      else answeredAt = sentAt;
    };
    using _heartbeat = every(clock, leaseMs / 5, () => {
      // Whether Postgres refuses or does not answer at all: past the lease another worker may have the item, and
      // what is under way here needs time to stop.
      if (clock.steadyMs() - answeredAt > leaseMs * 0.6) lost.abort();
      if (isCutOff()) return lost.abort();
      renew().catch(() => {});
    });
    try {
      const outcome = await outcomeOf(item, handler, AbortSignal.any([stop.signal, lost.signal]));
      const recorded = !lost.signal.aborted && (await finishWork(db, item, owner, outcome));
      options.metrics?.workFinished.inc({ kind: item.kind, outcome: recorded ? outcomeWord(outcome) : "lost" });
    } catch (error) {
      // The outcome could not be stored: the lease ends by itself and the item is done again.
      log.warn({ err: error, workItem: item.id }, "could not record the outcome of work");
    }
  }

  const onError = (error: unknown) => log.warn({ err: error }, "work queue");
  function startGroup({ handlers, concurrency }: WorkGroup) {
    const kinds = Object.keys(handlers);
    const wake = createWake(clock);
    const running = new Set<Promise<void>>();
    // Without a kind: some announcements may have been missed.
    const subscription = options.listener.on(workTopic, (kind) => {
      if (kind === "" || kind in handlers) wake.signal();
    });
    async function claimOne(): Promise<boolean> {
      const askedAt = clock.steadyMs();
      const item = await claimWork(db, { kinds, owner, leaseMs });
      if (item === null) return false;
      const job: Promise<void> = work(item, handlers[item.kind], askedAt).finally(() => {
        running.delete(job);
        wake.signal();
      });
      running.add(job);
      return true;
    }
    const claims = runLoop({ clock, wake, periodMs: 500, signal: stop.signal, onError }, async () => {
      if (isCutOff()) return;
      for (
        let atOnce = 1;
        running.size < concurrency && !stop.signal.aborted;
        atOnce = Math.min(2 * atOnce, claimsMax)
      ) {
        const room = Math.min(atOnce, concurrency - running.size);
        // All of them, also when one fails: what another has claimed meanwhile is waited for when this ends.
        const claims = await Promise.allSettled(Array.from({ length: room }, claimOne));
        for (const claim of claims) if (claim.status === "rejected") throw claim.reason;
        if (!claims.some((claim) => claim.status === "fulfilled" && claim.value)) return;
      }
    });
    return {
      wake: wake.signal,
      async ended() {
        subscription[Symbol.dispose]();
        await claims;
        await Promise.all(running);
      },
    };
  }

  const started = groups.map(startGroup);
  const reaps = runLoop({ clock, wake: createWake(clock), periodMs: 1_000, signal: stop.signal, onError }, async () => {
    options.onTurn?.();
    if ((await reapWork(db)) > 0) for (const { wake } of started) wake();
  });

  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      await Promise.all([reaps, ...started.map(({ ended }) => ended())]);
    },
  };
}
