import { type Clock, every } from "@svc/runtime/clock";
import { runLoop } from "@svc/runtime/loop";
import { createWake } from "@svc/runtime/wake";
import type { Log } from "../../log.ts";
import type { Metrics } from "../../metrics/metrics.ts";
import type { Listener } from "../db/listen.ts";
import { type ClaimedWork, type WorkOutcome, workTopic } from "./queue.ts";
import type { WorkRows } from "./rows.ts";

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
  rows: WorkRows;
  listener: Pick<Listener, "on">;
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

/** Claimed by one statement: another replica may have room for the rest. */
const claimsMax = 8;
/** How soon work is found that was not announced, or was not due then. One look serves all groups. */
const dueMs = 500;
/** Groups are woken; by itself each looks hardly ever. */
const unaskedMs = 60_000;

/** An item in progress here. */
interface Held {
  item: ClaimedWork;
  /** Not later than its lease was last extended. */
  renewedAtMs: number;
  lost: AbortController;
}

const retryDelayMs = (attempt: number) => Math.min(500 * 2 ** (attempt - 1), 60_000);

/** Claims and does work until disposed; disposing gives unfinished items back. */
export function startWorkers(options: WorkersOptions): AsyncDisposable {
  const { clock, rows, log, owner, groups, leaseMs } = options;
  const stop = new AbortController();
  const isCutOff = options.isCutOff ?? (() => false);
  const held = new Set<Held>();

  /** Extends all leases at once. What is lost is given up: past its lease another worker may have it. */
  async function renew(): Promise<void> {
    const sentAtMs = clock.steadyMs();
    const mine = [...held];
    if (mine.length === 0) return;
    const items = mine.map(({ item }) => item);
    const kept = await rows.renewAll(items, owner, leaseMs);
    for (const each of mine) {
      if (kept.has(each.item.id)) each.renewedAtMs = Math.max(each.renewedAtMs, sentAtMs);
      else each.lost.abort();
    }
  }
  const heartbeat = every(clock, leaseMs / 5, () => {
    // Whether Postgres refuses or does not answer at all: what is under way here needs time to stop.
    const tooOldMs = clock.steadyMs() - leaseMs * 0.6;
    for (const { renewedAtMs, lost } of held) if (renewedAtMs < tooOldMs || isCutOff()) lost.abort();
    if (!isCutOff()) renew().catch(() => {});
  });

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

  /** `claimedAtMs` is from before the claim was sent: the lease cannot end later than a lease after it. */
  async function work(item: ClaimedWork, handler: WorkHandler | undefined, claimedAtMs: number): Promise<void> {
    const lost = new AbortController();
    const mine = { item, renewedAtMs: claimedAtMs, lost };
    held.add(mine);
    try {
      const outcome = await outcomeOf(item, handler, AbortSignal.any([stop.signal, lost.signal]));
      const recorded = !lost.signal.aborted && (await rows.finish(item, owner, outcome));
      options.metrics?.workFinished.inc({ kind: item.kind, outcome: recorded ? outcomeWord(outcome) : "lost" });
    } catch (error) {
      // The outcome could not be stored: the lease ends by itself and the item is done again.
      log.warn({ err: error, workItem: item.id }, "could not record the outcome of work");
    } finally {
      held.delete(mine);
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
    function begin(item: ClaimedWork, claimedAtMs: number): void {
      const job: Promise<void> = work(item, handlers[item.kind], claimedAtMs).finally(() => {
        // What is due may have waited for room; else it was announced, or its key was busy, and then it is.
        if (running.size >= concurrency) wake.signal();
        running.delete(job);
      });
      running.add(job);
    }
    const claims = runLoop({ clock, wake, periodMs: unaskedMs, signal: stop.signal, onError }, async () => {
      if (isCutOff()) return;
      for (let room = concurrency - running.size; room > 0 && !stop.signal.aborted; room = concurrency - running.size) {
        const limit = Math.min(room, claimsMax);
        const askedAtMs = clock.steadyMs();
        const items = await rows.claimAll({ kinds, owner, leaseMs, limit });
        for (const item of items) begin(item, askedAtMs);
        if (items.length < limit) return;
      }
    });
    return {
      kinds,
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
    if ((await rows.reap()) > 0) for (const { wake } of started) wake();
  });
  const kinds = started.flatMap((group) => group.kinds);
  const looks = runLoop({ clock, wake: createWake(clock), periodMs: dueMs, signal: stop.signal, onError }, async () => {
    const due = new Set(await rows.listDueKinds(kinds));
    for (const group of started) if (group.kinds.some((kind) => due.has(kind))) group.wake();
  });

  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      await Promise.all([reaps, looks, ...started.map(({ ended }) => ended())]);
      heartbeat[Symbol.dispose]();
    },
  };
}
