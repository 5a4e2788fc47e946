import { fromBinary, toBinary } from "@bufbuild/protobuf";
import type { Journal } from "@svc/agent/journal/journal";
import type { Chain, PlacementRecord, RunRecord } from "@svc/agent/journal/records";
import { PlacementSchema, PlacementStatusSchema, RunOfferSchema } from "@svc/proto/node";
import type { Kernel, Process } from "../kernel/kernel.ts";

/** What an agent's journal holds. */
export interface Held {
  chain: Chain;
  placements: Map<string, PlacementRecord>;
  runs: Map<string, RunRecord>;
  settings: Map<string, string>;
  images: Map<string, { reference: string; owner: string; usedAtMs: number }>;
}

export class DiskFull extends Error {
  override readonly name = "DiskFull";
}

const emptyHeld = (): Held => ({
  chain: { clusterEpoch: 0n, leaderEpoch: 0n, resultsIn: "", beginsAnew: false },
  placements: new Map(),
  runs: new Map(),
  settings: new Map(),
  images: new Map(),
});

/** As it comes from the file again: nothing of the objects that were written is left in it. */
const copyOf = ({ chain, placements, runs, settings, images }: Held): Held => ({
  chain: { ...chain },
  placements: new Map([...placements].map(([id, record]) => [id, readPlacement(record)])),
  runs: new Map([...runs].map(([id, record]) => [id, readRun(record)])),
  settings: new Map(settings),
  images: new Map(images),
});
const readPlacement = ({ placement, status, memory, orphan }: PlacementRecord): PlacementRecord => ({
  placement: fromBinary(PlacementSchema, toBinary(PlacementSchema, placement)),
  status: fromBinary(PlacementStatusSchema, toBinary(PlacementStatusSchema, status)),
  memory: JSON.parse(JSON.stringify(memory)),
  orphan,
});
const readRun = ({ offer, ...record }: RunRecord): RunRecord => ({
  ...JSON.parse(JSON.stringify(record)),
  offer: fromBinary(RunOfferSchema, toBinary(RunOfferSchema, offer)),
});

/** The disk with an agent's journal: what was synced outlives a crash. */
export class Disk {
  /** What the agent reads. */
  state = emptyHeld();
  /** What a crash leaves. */
  durable = emptyHeld();
  isFull = false;
  /** False in a world where writes return before they are on the disk. */
  isSynced = true;
  /** Called after a write, so that a crash can be arranged for the worst moment. */
  onWrite: () => void = () => {};

  private readonly kernel: Kernel;
  private readonly process: Process;

  constructor(kernel: Kernel, process: Process) {
    this.kernel = kernel;
    this.process = process;
  }

  /** @throws DiskFull and then nothing has changed */
  commit(change: (held: Held) => void): void {
    if (this.isFull) throw new DiskFull("no space left on device");
    change(this.state);
    if (this.isSynced) change(this.durable);
    else {
      // Handed to the kernel, and on the disk some time later unless the process ends before.
      const { life } = this.process;
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

  copyTo(other: Disk): void {
    other.state = copyOf(this.durable);
    other.durable = copyOf(this.durable);
  }
}

const ownerSetting = "owner";

/** The journal on it, as one life of an agent has it: what `openJournal` is in the real world. */
export function virtualJournal(disk: Disk, { scope }: Process): Journal {
  const commit = (change: (held: Held) => void): void => {
    if (scope.isOver) throw new Error("the process has ended");
    disk.commit(change);
  };
  return {
    unreadable: 0,
    chain: () => disk.state.chain,
    commitAssignment: ({ chain, placements, forgotten }) =>
      commit((held) => {
        held.chain = { ...chain };
        for (const record of placements) held.placements.set(record.placement.placementId, record);
        for (const id of forgotten) held.placements.delete(id);
      }),
    listPlacements: () => [...disk.state.placements.values()],
    savePlacement: (record) => commit((held) => void held.placements.set(record.placement.placementId, record)),
    saveProgress({ placement: { placementId: id }, status, memory }) {
      if (!disk.state.placements.has(id)) throw new Error(`FOREIGN KEY constraint failed: ${id} is not known`);
      commit((held) => {
        const known = held.placements.get(id);
        if (known !== undefined) held.placements.set(id, { ...known, status, memory });
      });
    },
    forgetPlacement: (id) => commit((held) => void held.placements.delete(id)),
    listRuns: () => [...disk.state.runs.values()],
    saveRun: (record) => commit((held) => void held.runs.set(record.offer.attemptId, record)),
    forgetRun: (id) => commit((held) => void held.runs.delete(id)),
    claim(owner) {
      const before = disk.state.settings.get(ownerSetting);
      if (before === owner) return;
      commit((held) => {
        if (before !== undefined) Object.assign(held, emptyHeld());
        held.settings.set(ownerSetting, owner);
      });
    },
    findSetting: (key) => disk.state.settings.get(key) ?? null,
    saveSetting: (key, value) => commit((held) => void held.settings.set(key, value)),
    noteImage: (reference, owner, usedAtMs) =>
      commit((held) => void held.images.set(`${reference} ${owner}`, { reference, owner, usedAtMs })),
    hasImage: (reference, owner) => disk.state.images.has(`${reference} ${owner}`),
    listImages: () =>
      [...disk.state.images.values()].sort(
        (a, b) => b.usedAtMs - a.usedAtMs || (a.reference < b.reference ? -1 : a.reference > b.reference ? 1 : 0),
      ),
    forgetImage: (reference, owner) =>
      commit((held) => {
        for (const [key, image] of held.images)
          if (image.reference === reference && (owner ?? image.owner) === image.owner) held.images.delete(key);
      }),
    count: () => ({
      placement: disk.state.placements.size,
      run: disk.state.runs.size,
      image: disk.state.images.size,
    }),
    [Symbol.dispose]() {},
  };
}
