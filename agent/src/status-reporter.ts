import { Observed, type PlacementStatus } from "@svc/proto/node";
import type { Clock, Timer } from "@svc/runtime/clock";

/** Brings the newest status of each placement to control: in batches, one under way at a time, until it is acknowledged. */
export interface StatusReporter {
  report(status: PlacementStatus): void;
  /** A session is open: `send` returns false when it is gone. Everything unacknowledged goes again. */
  open(send: (batchSeq: bigint, items: PlacementStatus[]) => boolean): void;
  acknowledge(batchSeq: bigint): void;
  /** Placements whose newest status is not acknowledged. */
  backlog(): number;
  close(): void;
}

/** Changes within this time share a batch. The first after a quiet spell goes at once. */
const usualWindowMs = 100;
/** The window of what a deployment waits for: that a task runs, or that it has come to an end. */
const urgentWindowMs = 5;
const batchMax = 500;

export function createStatusReporter(clock: Clock): StatusReporter {
  const pending = new Map<string, PlacementStatus>();
  const acknowledgedAs = new Map<string, Observed>();
  let send: ((batchSeq: bigint, items: PlacementStatus[]) => boolean) | null = null;
  let batchSeq = 0n;
  let underWay: PlacementStatus[] | null = null;
  let sentAtMs = Number.NEGATIVE_INFINITY;
  let timer: Timer | null = null;

  const flush = (): void => {
    timer = null;
    if (send === null || underWay !== null || pending.size === 0) return;
    const items = [...pending.values()].slice(0, batchMax);
    batchSeq += 1n;
    underWay = items;
    sentAtMs = clock.steadyMs();
    send(batchSeq, items);
  };
  const schedule = (): void => {
    if (send === null || underWay !== null || pending.size === 0) return;
    const windowMs = [...pending.values()].some(isUrgent) ? urgentWindowMs : usualWindowMs;
    timer?.[Symbol.dispose]();
    timer = clock.after(Math.max(0, sentAtMs + windowMs - clock.steadyMs()), flush);
  };
  const isUrgent = ({ placementId, observed }: PlacementStatus): boolean =>
    observed >= Observed.RUNNING && acknowledgedAs.get(placementId) !== observed;

  return {
    report(status) {
      pending.set(status.placementId, status);
      schedule();
    },
    open(newSend) {
      send = newSend;
      underWay = null;
      sentAtMs = Number.NEGATIVE_INFINITY;
      schedule();
    },
    acknowledge(acknowledged) {
      if (underWay === null || acknowledged !== batchSeq) return;
      for (const { placementId, statusSeq, observed } of underWay) {
        if (observed === Observed.REMOVED) acknowledgedAs.delete(placementId);
        else acknowledgedAs.set(placementId, observed);
        // A newer status of the same placement still has to go.
        if (pending.get(placementId)?.statusSeq === statusSeq) pending.delete(placementId);
      }
      underWay = null;
      schedule();
    },
    backlog: () => pending.size,
    close() {
      send = null;
      underWay = null;
      timer?.[Symbol.dispose]();
      timer = null;
    },
  };
}
