import type { Log } from "@svc/control/log";
import { createEtcd, type Etcd } from "@svc/control/stores/etcd/client";
import type { Kernel, Process } from "../kernel/kernel.ts";
import { virtualClock, virtualRandom } from "../kernel/ports.ts";
import type { EtcdStore, Snapshot, Txn, Writer } from "./etcd.ts";
import { virtualMember } from "./etcd-member.ts";

/** What goes wrong between the clients of a store and the store, at the moment. */
export interface StoreTrouble {
  /** Share of writes whose outcome the client does not hear; most of them are applied, some of those late. */
  unknownShare: number;
  /** Share of calls that take long. */
  slowShare: number;
}

/** A stream that somebody has open. */
export interface OpenStream {
  /** Nothing comes over it before. */
  stalledUntilMs: number;
  /** Something on the way has ended it; its client hears of that mostly. */
  broke(): void;
  /** Nobody reads it any more. */
  drop(): void;
}

/** One program's way to etcd, over all its lives: what goes wrong on it, and which streams are open over it. */
export class EtcdPath {
  /** Until then nothing gets through, and nobody is told. */
  cutUntilMs = 0;
  /** What ranges of one node's placements show, while a member that has fallen behind answers. */
  stale: { untilMs: number; backup: Snapshot | null } = { untilMs: 0, backup: null };
  readonly streams = new Set<OpenStream>();

  readonly kernel: Kernel;
  readonly store: EtcdStore;
  readonly process: Process;
  readonly trouble: StoreTrouble;

  constructor(kernel: Kernel, store: EtcdStore, process: Process, trouble: StoreTrouble) {
    this.kernel = kernel;
    this.store = store;
    this.process = process;
    this.trouble = trouble;
  }

  get isReachable(): boolean {
    return this.store.isUp && this.kernel.nowMs >= this.cutUntilMs;
  }

  latencyMs(): number {
    const { random } = this.process;
    return random.chance(this.trouble.slowShare) ? random.between(20, 900) : random.between(0.2, 1.5);
  }

  /** A cable is pulled: streams are dead, whether or not this side hears of it. */
  breakWatches(): void {
    for (const stream of [...this.streams]) stream.broke();
  }

  stallWatches(forMs: number): void {
    for (const stream of this.streams) stream.stalledUntilMs = this.kernel.nowMs + forMs;
  }

  /** The process has ended. */
  forget(): void {
    for (const stream of [...this.streams]) stream.drop();
    this.streams.clear();
  }
}

/** Members of the virtual cluster: a client goes from one to the next, and all of them are the one store. */
const endpoints = [1, 2, 3].map((at) => `http://etcd${at}.test:2379`);

/**
 * The product's client of etcd in the virtual world, for the present life of the process that the path is of: everything of it
 * but the network. `writerOf` says for the checks who writes, as `Writers` tells it.
 */
export const createVirtualEtcd = (path: EtcdPath, log: Log, writerOf: (txn: Omit<Txn, "writer">) => Writer): Etcd =>
  createEtcd({
    clock: virtualClock(path.process),
    random: virtualRandom(path.process),
    endpoints,
    log,
    open: virtualMember(path, writerOf),
  });
