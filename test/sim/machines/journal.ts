import type { Chain, PlacementRecord, RunRecord } from "@svc/agent/journal/records";
import type { Kernel, Process } from "../kernel/kernel.ts";

export interface JournalState {
  chain: Chain;
  placements: Map<string, PlacementRecord>;
  runs: Map<string, RunRecord>;
}

export class DiskFull extends Error {
  override readonly name = "DiskFull";
}

const emptyState = (): JournalState => ({
  chain: { clusterEpoch: 0n, leaderEpoch: 0n, resultsIn: "" },
  placements: new Map(),
  runs: new Map(),
});

const copyOf = ({ chain, placements, runs }: JournalState): JournalState => ({
  chain,
  placements: new Map(placements),
  runs: new Map(runs),
});

/** What an agent keeps on its disk. A write is on the disk when it returns, unless a test double says otherwise. */
export class Journal {
  /** What the agent reads. */
  state = emptyState();
  /** What a crash leaves. */
  durable = emptyState();
  isFull = false;
  writes = 0;
  /** Called after a write, so that a crash can be arranged for the worst moment. */
  onWrite: () => void = () => {};

  private readonly kernel: Kernel;
  private readonly process: Process;
  private readonly isSynced: boolean;

  constructor(kernel: Kernel, process: Process, isSynced: boolean) {
    this.kernel = kernel;
    this.process = process;
    this.isSynced = isSynced;
  }

  /** @throws DiskFull and then nothing has changed */
  commit(change: (state: JournalState) => void): void {
    if (this.isFull) throw new DiskFull("no space left on device");
    this.writes += 1;
    change(this.state);
    if (this.isSynced) change(this.durable);
    else {
      // Handed to the kernel, and on the disk some time later unless the process ends before.
      const life = this.process.life;
      this.kernel.at(this.process.random.between(5, 400), "write back", () => {
        if (this.process.alive && this.process.life === life) change(this.durable);
      });
    }
    this.onWrite();
  }

  /** The process has ended: what was not on the disk is gone. */
  crash(): void {
    this.state = copyOf(this.durable);
  }

  wipe(): void {
    this.state = emptyState();
    this.durable = emptyState();
  }

  copyTo(other: Journal): void {
    other.state = copyOf(this.durable);
    other.durable = copyOf(this.durable);
  }
}
