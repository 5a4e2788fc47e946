import { create } from "@bufbuild/protobuf";
import { bytesOf, type Entry } from "@svc/control/stores/etcd/entry";
import type { Guard } from "@svc/control/stores/etcd/txn";
import {
  type Event,
  Event_EventType,
  EventSchema,
  KeyValueSchema,
  ResponseHeaderSchema,
  type WatchResponse,
  WatchResponseSchema,
} from "@svc/proto/etcd";
import type { Kernel, Process } from "../kernel/kernel.ts";

/** Who writes, for the checks: it is no part of the store. */
export type Writer =
  | { by: "leader"; serverId: string; epoch: bigint }
  | { by: "session"; serverId: string; daemonId: string; epoch: bigint }
  | { by: "server"; serverId: string }
  | { by: "worker"; serverId: string }
  | { by: "operator" };

export type Op =
  | { put: { key: string; value: string; leaseId?: bigint } }
  | { delete: { key: string } }
  | { get: { key: string } };
export interface Txn {
  guards: readonly Guard[];
  ops: readonly Op[];
  orElse?: readonly Op[];
  writer: Writer;
}
export interface TxnResult {
  succeeded: boolean;
  revision: bigint;
  reads: (Entry | null)[];
}

/** One key that a transaction changed, before and after. */
export interface Commit {
  key: string;
  before: Entry | null;
  after: Entry | null;
  writer: Writer | null;
}

interface Lease {
  id: bigint;
  ttlMs: number;
  keys: Set<string>;
  expiry: Disposable | null;
}

/** A backup. */
export interface Snapshot {
  /** Of the store that it was made of: what is restored from it is another one. */
  clusterId: bigint;
  revision: bigint;
  entries: Entry[];
}

/** One watch of one client: everything is delivered in order, or the stream breaks. */
export interface WatchStream {
  wants(key: string): boolean;
  nextRevision: bigint;
  isSynced: boolean;
  isOver: boolean;
  /** At that moment at the earliest, and after what was delivered before. */
  deliver(response: WatchResponse, atMs: number): void;
  broke(): void;
}

/**
 * The store as its clients may count on it: linearisable, with revisions, leases, watches with a history that is
 * compacted, and a restore from a backup.
 */
export class EtcdStore {
  revision = 1n;
  compactedAt = 0n;
  clusterId = 1n;
  /** Since when it answers again, in true time: for the checks only. */
  upSinceMs = 0;
  private isAnswering = true;
  readonly entries = new Map<string, Entry>();
  readonly watches = new Set<WatchStream>();
  private readonly byPrefix = new Map<string, Map<string, Entry>>();
  private history: { revision: bigint; key: string; event: Event }[] = [];
  private readonly leases = new Map<bigint, Lease>();
  private nextLease = 1n;
  writes = 0;
  /** Called after each transaction that changed something. */
  onCommit: (commits: readonly Commit[], revision: bigint) => void = () => {};

  private readonly kernel: Kernel;
  readonly process: Process;

  constructor(kernel: Kernel, process: Process) {
    this.kernel = kernel;
    this.process = process;
  }

  get isUp(): boolean {
    return this.isAnswering;
  }

  set isUp(isUp: boolean) {
    if (isUp && !this.isAnswering) this.upSinceMs = this.kernel.nowMs;
    this.isAnswering = isUp;
  }

  get(key: string): Entry | null {
    return this.entries.get(key) ?? null;
  }

  range(under: string): Entry[] {
    return [...this.shelf(under).values()];
  }

  /** Keys are kept by their first parts, so that a range costs what it returns. */
  private shelf(under: string): Map<string, Entry> {
    let shelf = this.byPrefix.get(under);
    if (shelf === undefined) {
      shelf = new Map([...this.entries].filter(([key]) => key.startsWith(under)));
      this.byPrefix.set(under, shelf);
    }
    return shelf;
  }

  private set(key: string, entry: Entry | null): void {
    if (entry === null) this.entries.delete(key);
    else this.entries.set(key, entry);
    for (const [under, shelf] of this.byPrefix) {
      if (!key.startsWith(under)) continue;
      if (entry === null) shelf.delete(key);
      else shelf.set(key, entry);
    }
  }

  private holds(guard: Guard): boolean {
    const entry = this.entries.get(guard.key);
    if (guard.compare === "absent") return entry === undefined;
    if (guard.compare === "modRevision") return entry?.modRevision === guard.value;
    return entry?.createRevision === guard.value;
  }

  txn({ guards, ops, orElse = [], writer }: Txn): TxnResult {
    const succeeded = guards.every((guard) => this.holds(guard));
    const list = succeeded ? ops : orElse;
    const isWrite = list.some((op) => "put" in op || ("delete" in op && this.entries.has(op.delete.key)));
    const revision = isWrite ? this.revision + 1n : this.revision;
    const reads: (Entry | null)[] = [];
    const commits: Commit[] = [];
    for (const op of list) {
      if ("get" in op) {
        reads.push(this.get(op.get.key));
        continue;
      }
      if ("put" in op && op.put.leaseId !== undefined && !this.leases.has(op.put.leaseId)) {
        // As the real one: a put under a lease that is gone fails as a whole.
        throw new Error("lease not found");
      }
    }
    for (const op of list) {
      if ("put" in op) {
        const { key, value, leaseId = 0n } = op.put;
        const before = this.get(key);
        const after: Entry = {
          key,
          value,
          createRevision: before?.createRevision ?? revision,
          modRevision: revision,
          leaseId,
        };
        this.leases.get(before?.leaseId ?? 0n)?.keys.delete(key);
        this.leases.get(leaseId)?.keys.add(key);
        this.set(key, after);
        commits.push({ key, before, after, writer });
      } else if ("delete" in op) {
        const before = this.get(op.delete.key);
        if (before === null) continue;
        this.leases.get(before.leaseId)?.keys.delete(before.key);
        this.set(before.key, null);
        commits.push({ key: before.key, before, after: null, writer });
      }
    }
    // A put and a read of one key in one transaction: the read comes after, as ours always do.
    let at = 0;
    for (const op of list) if ("get" in op) reads[at++] = this.get(op.get.key);
    this.commit(commits, revision);
    return { succeeded, revision: this.revision, reads };
  }

  private commit(commits: readonly Commit[], revision: bigint): void {
    if (commits.length === 0) return;
    this.revision = revision;
    this.writes += 1;
    for (const { key, after } of commits) this.history.push({ revision, key, event: eventOf(key, after, revision) });
    for (const watch of this.watches) if (watch.isSynced) this.feed(watch);
    this.onCommit(commits, revision);
  }

  // ------------------------------------------------------------------ leases

  grant(ttlMs: number): bigint {
    const id = this.nextLease++;
    this.extend(this.newLease(id, ttlMs));
    return id;
  }

  private newLease(id: bigint, ttlMs: number): Lease {
    const lease: Lease = { id, ttlMs, keys: new Set(), expiry: null };
    this.leases.set(id, lease);
    return lease;
  }

  private extend(lease: Lease): void {
    lease.expiry?.[Symbol.dispose]();
    const forMs = lease.ttlMs / this.process.rate;
    lease.expiry = this.kernel.at(forMs, "lease expiry", () => this.expire(lease));
  }

  private expire(lease: Lease): void {
    // Without a leader nothing expires; the next one extends every lease.
    if (!this.isUp || !this.leases.has(lease.id)) return;
    this.endLease(lease.id);
  }

  /** The remaining time to live in seconds; 0 for a lease that is not known. */
  keepAlive(id: bigint): bigint {
    const lease = this.leases.get(id);
    if (lease === undefined) return 0n;
    this.extend(lease);
    return BigInt(Math.ceil(lease.ttlMs / 1000));
  }

  hasLease(id: bigint): boolean {
    return this.leases.has(id);
  }

  endLease(id: bigint): void {
    const lease = this.leases.get(id);
    if (lease === undefined) return;
    lease.expiry?.[Symbol.dispose]();
    this.leases.delete(id);
    const commits: Commit[] = [];
    const revision = this.revision + 1n;
    for (const key of [...lease.keys].sort()) {
      const before = this.get(key);
      if (before === null) continue;
      this.set(key, null);
      commits.push({ key, before, after: null, writer: null });
    }
    this.commit(commits, revision);
  }

  /** A new leader of etcd's own: every lease has its whole time again. */
  extendAll(): void {
    for (const lease of this.leases.values()) this.extend(lease);
  }

  // ----------------------------------------------------------------- watches

  compact(): void {
    this.compactedAt = this.revision;
    this.history = [];
  }

  header() {
    return create(ResponseHeaderSchema, { revision: this.revision, clusterId: this.clusterId });
  }

  /** Sends a synced watch what it does not have yet. */
  feed(watch: WatchStream): void {
    if (watch.isOver || watch.nextRevision > this.revision) return;
    const from = watch.nextRevision;
    if (from <= this.compactedAt) {
      watch.isSynced = false;
      this.send(
        watch,
        create(WatchResponseSchema, { header: this.header(), canceled: true, compactRevision: this.compactedAt }),
      );
      return;
    }
    watch.nextRevision = this.revision + 1n;
    const events: Event[] = [];
    for (let at = this.history.length - 1; at >= 0; at -= 1) {
      const item = this.history[at];
      if (item === undefined || item.revision < from) break;
      if (watch.wants(item.key)) events.push(item.event);
    }
    if (events.length === 0) return;
    events.reverse();
    // A long answer comes in parts, cut anywhere.
    const partSize = events.length > 3 ? Math.ceil(events.length / 2) : events.length;
    for (let at = 0; at < events.length; at += partSize) {
      const part = events.slice(at, at + partSize);
      const fragment = at + partSize < events.length;
      this.send(watch, create(WatchResponseSchema, { header: this.header(), watchId: 1n, events: part, fragment }));
    }
  }

  send(watch: WatchStream, response: WatchResponse): void {
    watch.deliver(response, this.kernel.nowMs + this.process.random.between(0.3, 3));
  }

  breakWatches(): void {
    for (const watch of [...this.watches]) watch.broke();
  }

  // ------------------------------------------------------------------ backup

  backup(): Snapshot {
    return { clusterId: this.clusterId, revision: this.revision, entries: [...this.entries.values()] };
  }

  /** The store as it was, under revisions that go on from there, or from `bump` above it. */
  restore({ revision, entries }: Snapshot, bump: bigint): void {
    for (const lease of this.leases.values()) lease.expiry?.[Symbol.dispose]();
    this.leases.clear();
    this.entries.clear();
    this.byPrefix.clear();
    for (const entry of entries) this.entries.set(entry.key, entry);
    this.revision = revision + bump;
    this.history = [];
    this.compactedAt = bump > 0n ? this.revision : revision;
    this.clusterId += 1n;
    this.breakWatches();
    // Keys under a lease: the lease is in the backup as well, and runs out unless somebody renews it.
    for (const { leaseId, key } of entries) {
      if (leaseId === 0n) continue;
      const lease = this.leases.get(leaseId) ?? this.newLease(leaseId, 6_000);
      lease.keys.add(key);
      this.extend(lease);
    }
  }
}

function eventOf(key: string, after: Entry | null, revision: bigint): Event {
  const kv = create(KeyValueSchema, {
    key: bytesOf(key),
    value: bytesOf(after?.value ?? ""),
    createRevision: after?.createRevision ?? 0n,
    modRevision: revision,
    lease: after?.leaseId ?? 0n,
  });
  return create(EventSchema, { type: after === null ? Event_EventType.Delete : Event_EventType.Put, kv });
}

/** Values as the product writes them. Each is read once, however many look at it. */
export class Values {
  private readonly known = new Map<string, unknown>();

  textOf(value: unknown): string {
    return JSON.stringify(value);
  }

  /** What is written in `text`: not to be changed. */
  of<T>(text: string): T {
    if (!this.known.has(text)) this.known.set(text, JSON.parse(text));
    return this.known.get(text) as T;
  }
}
