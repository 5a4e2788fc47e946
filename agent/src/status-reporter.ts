import type { PlacementStatus } from "@svc/proto/node";

/** Brings the newest status of each placement to control: in batches, one under way at a time, until it is acknowledged. */
export type StatusReporter = {
  report(status: PlacementStatus): void;
  /** A session is open: `send` returns false when it is gone. Everything unacknowledged goes again. */
  open(send: (batchSeq: bigint, items: PlacementStatus[]) => boolean): void;
  acknowledge(batchSeq: bigint): void;
  close(): void;
};

/** Changes within this time share a batch. The first after a quiet spell goes at once. */
const WINDOW_MS = 100;
const BATCH_MAX = 500;

export function createStatusReporter(): StatusReporter {
  const pending = new Map<string, PlacementStatus>();
  let send: ((batchSeq: bigint, items: PlacementStatus[]) => boolean) | null = null;
  let batchSeq = 0n;
  let underWay: Map<string, bigint> | null = null;
  let sentAtMs = Number.NEGATIVE_INFINITY;
  let timer: NodeJS.Timeout | null = null;

  const flush = (): void => {
    timer = null;
    if (send === null || underWay !== null || pending.size === 0) return;
    const items = [...pending.values()].slice(0, BATCH_MAX);
    batchSeq += 1n;
    underWay = new Map(items.map((item) => [item.placementId, item.statusSeq]));
    sentAtMs = performance.now();
    send(batchSeq, items);
  };
  const schedule = (): void => {
    if (timer !== null || send === null || underWay !== null || pending.size === 0) return;
    timer = setTimeout(flush, Math.max(0, sentAtMs + WINDOW_MS - performance.now()));
  };

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
      for (const [id, statusSeq] of underWay) {
        // A newer status of the same placement still has to go.
        if (pending.get(id)?.statusSeq === statusSeq) pending.delete(id);
      }
      underWay = null;
      schedule();
    },
    close() {
      send = null;
      underWay = null;
      if (timer !== null) clearTimeout(timer);
      timer = null;
    },
  };
}
