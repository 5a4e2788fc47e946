import { Observed, type PlacementStatus } from "@svc/proto/node";
import type { Scope, Timer } from "../kernel/kernel.ts";

const windowMs = 100;
const urgentWindowMs = 5;
const batchMax = 500;

type Send = (batchSeq: bigint, items: PlacementStatus[]) => void;

/** Brings the newest status of each placement to control: mirrors `agent/src/status-reporter.ts`. */
export class StatusReporter {
  readonly pending = new Map<string, PlacementStatus>();
  private readonly acknowledgedAs = new Map<string, Observed>();
  private send: Send | null = null;
  private batchSeq = 0n;
  private underWay: PlacementStatus[] | null = null;
  private sentAtMs = Number.NEGATIVE_INFINITY;
  private timer: Timer | null = null;

  private readonly scope: Scope;

  constructor(scope: Scope) {
    this.scope = scope;
  }

  private flush(): void {
    this.timer = null;
    if (this.send === null || this.underWay !== null || this.pending.size === 0) return;
    const items = [...this.pending.values()].slice(0, batchMax);
    this.batchSeq += 1n;
    this.underWay = items;
    this.sentAtMs = this.scope.process.monoMs();
    this.send(this.batchSeq, items);
  }

  private schedule(): void {
    if (this.send === null || this.underWay !== null || this.pending.size === 0) return;
    const isUrgent = [...this.pending.values()].some(
      ({ placementId, observed }) => observed >= Observed.RUNNING && this.acknowledgedAs.get(placementId) !== observed,
    );
    this.timer?.cancel();
    const dueMs = this.sentAtMs + (isUrgent ? urgentWindowMs : windowMs);
    this.timer = this.scope.after(Math.max(0, dueMs - this.scope.process.monoMs()), "report", () => this.flush());
  }

  report(status: PlacementStatus): void {
    this.pending.set(status.placementId, status);
    this.schedule();
  }

  open(send: Send): void {
    this.send = send;
    this.underWay = null;
    this.sentAtMs = Number.NEGATIVE_INFINITY;
    this.schedule();
  }

  acknowledge(batchSeq: bigint): void {
    if (this.underWay === null || batchSeq !== this.batchSeq) return;
    for (const { placementId, statusSeq, observed } of this.underWay) {
      if (observed === Observed.REMOVED) this.acknowledgedAs.delete(placementId);
      else this.acknowledgedAs.set(placementId, observed);
      if (this.pending.get(placementId)?.statusSeq === statusSeq) this.pending.delete(placementId);
    }
    this.underWay = null;
    this.schedule();
  }

  close(): void {
    this.send = null;
    this.underWay = null;
    this.timer?.cancel();
    this.timer = null;
  }
}
