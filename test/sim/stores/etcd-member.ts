import { create } from "@bufbuild/protobuf";
import { type ClientUnaryCall, Metadata, type requestCallback, type ServiceError, status } from "@grpc/grpc-js";
import type { Member } from "@svc/control/stores/etcd/connection";
import { bytesOf, type Entry, textOf } from "@svc/control/stores/etcd/entry";
import type { KeyRange } from "@svc/control/stores/etcd/key-range";
import {
  type KeyValue,
  KeyValueSchema,
  LeaseGrantResponseSchema,
  LeaseKeepAliveResponseSchema,
  LeaseRevokeResponseSchema,
  type RangeResponse,
  RangeResponseSchema,
  ResponseOpSchema,
  TxnResponseSchema,
  type WatchResponse,
  WatchResponseSchema,
} from "@svc/proto/etcd";
import type { Scope } from "../kernel/kernel.ts";
import { enter } from "../kernel/ports.ts";
import type { Snapshot, Txn, WatchStream, Writer } from "./etcd.ts";
import type { EtcdPath, OpenStream } from "./etcd-path.ts";
import { txnOf } from "./etcd-txn.ts";

/** As grpc-js makes them. */
const failure = (code: status, details: string): ServiceError =>
  Object.assign(new Error(`${code} ${status[code]}: ${details}`), { code, details, metadata: new Metadata() });

/** Opens members of the virtual cluster, for one life of the path's process: what a connection over HTTP/2 is in the real world. */
export function virtualMember(
  path: EtcdPath,
  writerOf: (txn: Omit<Txn, "writer">) => Writer,
): (endpoint: string) => Member {
  const { store, process, kernel } = path;
  const { scope } = process;
  const call = createCaller(path, scope);

  const kv: Pick<Member["kv"], "range" | "txn"> = {
    range: (request, _metadata, { deadline }, reply) =>
      call("etcd range", "read", deadline, reply, () => rangeOf(path, request as KeyRange & Page)),
    txn: (request, _metadata, { deadline }, reply) => {
      const asked = txnOf(request);
      // Who asks is told now: what is applied late is so under the name of then.
      const writer = writerOf(asked);
      return call("etcd txn", "write", deadline, reply, () => {
        const { succeeded, reads } = store.txn({ ...asked, writer });
        const responses = reads.map((entry) => {
          const value = create(RangeResponseSchema, { kvs: entry === null ? [] : [kvOf(entry)] });
          return create(ResponseOpSchema, { response: { case: "responseRange", value } });
        });
        return create(TxnResponseSchema, { header: store.header(), succeeded, responses });
      });
    },
  };
  const lease: Pick<Member["lease"], "leaseGrant" | "leaseRevoke"> = {
    leaseGrant: ({ TTL = 0n }, _metadata, { deadline }, reply) =>
      call("lease grant", "write", deadline, reply, () =>
        create(LeaseGrantResponseSchema, { header: store.header(), ID: store.grant(Number(TTL) * 1_000), TTL }),
      ),
    leaseRevoke: ({ ID = 0n }, _metadata, { deadline }, reply) =>
      call("lease revoke", "write", deadline, reply, () => {
        if (!store.hasLease(ID)) throw new Error("etcdserver: requested lease not found");
        store.endLease(ID);
        return create(LeaseRevokeResponseSchema, { header: store.header() });
      }),
  };
  const member = {
    kv,
    lease: { ...lease, leaseKeepAlive: () => openKeepAlive(path, scope) },
    watch: { watch: () => openWatch(path, scope) },
    // Open calls come to their end.
    close() {},
  };
  // No more of them than the client calls, and of those no more than it uses.
  return (endpoint) => ({ endpoint, ...member }) as unknown as Member;

  function openKeepAlive(from: EtcdPath, life: Scope): ClientStream<{ ID?: bigint }, unknown> {
    const stream = new ClientStream<{ ID?: bigint }, unknown>(from, life, ({ ID = 0n }) => {
      kernel.at(from.latencyMs(), "lease keep-alive", () => {
        if (!stream.reaches()) return;
        const reply = create(LeaseKeepAliveResponseSchema, { header: store.header(), ID, TTL: store.keepAlive(ID) });
        stream.deliver(reply, kernel.nowMs + from.latencyMs());
      });
    });
    return stream;
  }
}

type Caller = <T>(
  tag: string,
  kind: "read" | "write",
  deadline: Date | number | undefined,
  reply: requestCallback<T>,
  apply: () => T,
) => ClientUnaryCall;

/** Unary calls. A read that fails changed nothing; a write that fails may have been applied, or may still be. */
function createCaller(path: EtcdPath, scope: Scope): Caller {
  const { kernel, process, store, trouble } = path;
  const { random } = process;
  return (tag, kind, deadline, reply, apply) => {
    let isOver = scope.isOver;
    const finish = (act: () => void): void => {
      if (isOver || scope.isOver) return;
      isOver = true;
      timer[Symbol.dispose]();
      enter(process, act);
    };
    const failed = (code: status, details: string) => () => finish(() => reply(failure(code, details)));
    // A deadline is a moment of the clock that somebody may set; what is left of it is waited for by one that nobody sets.
    const leftMs = Number(deadline) - process.wallMs();
    const timer = scope.after(leftMs, "etcd deadline", failed(status.DEADLINE_EXCEEDED, "Deadline exceeded"));
    const started = {
      cancel: () => void kernel.at(0, "etcd cancelled", failed(status.CANCELLED, "Cancelled on client"), process),
    } as ClientUnaryCall;
    if (isOver) return started;

    const { clusterId } = store;
    const isUnknown = kind === "write" && random.chance(trouble.unknownShare);
    const isLost = isUnknown && random.chance(0.2);
    const isLate = isUnknown && random.chance(0.5);
    const isTold = isUnknown && random.chance(0.5);
    const delayMs = path.latencyMs() + (isLate ? random.between(0, 6_000) : 0);
    const answerMs = path.latencyMs();
    const refusedMs = random.between(5, 200);
    const later = (afterMs: number, what: string, act: () => void) => void kernel.at(afterMs, what, act, process);
    // The connection breaks, which says nothing of what was sent.
    if (isTold) later(answerMs, "etcd broke", failed(status.UNAVAILABLE, "Connection dropped"));
    kernel.at(delayMs, tag, () => {
      // Refused connections are noticed at once, cut ones by the deadline.
      if (!store.isUp) return later(refusedMs, "etcd refused", failed(status.UNAVAILABLE, "No connection established"));
      // What was sent to a store that was stopped since never gets to the one that was restored.
      if (!path.isReachable || isLost || store.clusterId !== clusterId) return;
      let answer: () => void;
      try {
        const value = apply();
        answer = () => finish(() => reply(null, value));
      } catch (error) {
        answer = error instanceof Compacted ? failed(status.OUT_OF_RANGE, "") : failed(status.NOT_FOUND, String(error));
      }
      if (!isUnknown) later(answerMs, "etcd answer", () => path.isReachable && answer());
    });
    return started;
  };
}

// ----------------------------------------------------------------------- range

interface Page {
  limit: bigint;
  revision: bigint;
}

/** The revision that was asked for is gone. */
class Compacted extends Error {}

/** What a range's end says of the prefix: see `underPrefix`. */
function prefixUntil(rangeEnd: Uint8Array): string {
  if (rangeEnd.length === 1 && rangeEnd[0] === 0) return "";
  const under = Uint8Array.from(rangeEnd);
  under[under.length - 1] = (under[under.length - 1] ?? 1) - 1;
  return textOf(under);
}

/** Which keys are in a range: one, or those under a prefix. */
const wants = ({ key, rangeEnd }: KeyRange): ((key: string) => boolean) => {
  const [from, under] = [textOf(key), prefixUntil(rangeEnd)];
  return rangeEnd.length === 0 ? (each) => each === from : (each) => each.startsWith(under) && each >= from;
};

function rangeOf(path: EtcdPath, { key, rangeEnd, limit, revision }: KeyRange & Page): RangeResponse {
  const { store } = path;
  const shown = staleOf(path, rangeEnd) ?? store;
  // Only the present is kept: what has changed between two pages has to be read from the beginning.
  if (revision !== 0n && revision < shown.revision) throw new Compacted();
  let found: Entry[];
  if (rangeEnd.length === 0) found = [store.get(textOf(key)) ?? []].flat();
  else {
    const [isWanted, under] = [wants({ key, rangeEnd }), prefixUntil(rangeEnd)];
    const all = shown === store ? store.range(under) : (shown as Snapshot).entries;
    found = all.filter((entry) => isWanted(entry.key)).sort((a, b) => (a.key < b.key ? -1 : 1));
  }
  const page = limit > 0n ? found.slice(0, Number(limit)) : found;
  return create(RangeResponseSchema, {
    header: { ...store.header(), revision: shown.revision },
    kvs: page.map(kvOf),
    more: page.length < found.length,
    count: BigInt(found.length),
  });
}

/** Where a session that begins reads what is placed. */
const ofOneNode = /^\/svc\/placements\/[^/]+\/$/;

/** What a member that has fallen behind shows; null when none answers. */
function staleOf({ stale: { untilMs, backup }, store, kernel }: EtcdPath, rangeEnd: Uint8Array): Snapshot | null {
  if (backup?.clusterId !== store.clusterId || kernel.nowMs >= untilMs || rangeEnd.length === 0) return null;
  return ofOneNode.test(prefixUntil(rangeEnd)) ? backup : null;
}

const kvs = new WeakMap<Entry, KeyValue>();

function kvOf(entry: Entry): KeyValue {
  const known = kvs.get(entry);
  if (known !== undefined) return known;
  const { key, value, createRevision, modRevision, leaseId } = entry;
  const kv = create(KeyValueSchema, {
    ...{ key: bytesOf(key), value: bytesOf(value), createRevision, modRevision },
    lease: leaseId,
  });
  kvs.set(entry, kv);
  return kv;
}

// --------------------------------------------------------------------- streams

/** A stream in both directions, as its client has it: everything is delivered in order, or it breaks. */
class ClientStream<Sent, Received> implements OpenStream {
  stalledUntilMs = 0;
  lastDeliveryMs = 0;
  isOver = false;
  /** Called when it ends, whoever ends it. */
  onOver: () => void = () => {};
  private readonly handlers = new Map<string, (value: unknown) => void>();
  private readonly path: EtcdPath;
  private readonly scope: Scope;
  private readonly send: (message: Sent) => void;

  constructor(path: EtcdPath, scope: Scope, send: (message: Sent) => void) {
    this.path = path;
    this.scope = scope;
    this.send = send;
    if (scope.isOver) this.isOver = true;
    else path.streams.add(this);
  }

  on(name: string, handler: (value: never) => void): this {
    this.handlers.set(name, handler as (value: unknown) => void);
    return this;
  }

  write(message: Sent): boolean {
    if (!this.isOver) this.send(message);
    return true;
  }

  cancel(): void {
    this.end(() => this.emit("error", failure(status.CANCELLED, "Cancelled on client")), 0);
  }

  drop(): void {
    this.end(null);
  }

  broke(): void {
    const { random } = this.path.process;
    const isTold = random.chance(0.8);
    if (isTold && random.chance(0.8)) this.fail(this.path.latencyMs());
    else this.end(isTold ? () => this.emit("end", undefined) : null, this.path.latencyMs());
  }

  private fail(afterMs: number): void {
    this.end(() => this.emit("error", failure(status.UNAVAILABLE, "Connection dropped")), afterMs);
  }

  /** Whether what was sent gets to the store. If not, nothing sent later does; of a store that is down it is told. */
  reaches(): boolean {
    if (this.isOver) return false;
    const { path } = this;
    if (path.isReachable) return true;
    if (path.store.isUp) this.drop();
    else this.fail(path.process.random.between(5, 200));
    return false;
  }

  deliver(message: Received, soonestMs: number): void {
    const { path, scope } = this;
    const { kernel, process } = path;
    const atMs = Math.max(soonestMs, this.lastDeliveryMs, this.stalledUntilMs);
    this.lastDeliveryMs = atMs;
    const arrive = (): void => {
      if (this.isOver || scope.isOver) return;
      // What is on its way over a cut path never comes, and nothing after it: the client has to find out.
      if (path.isReachable) enter(process, () => this.emit("data", message));
      else this.drop();
    };
    kernel.at(atMs - kernel.nowMs, "etcd stream", arrive, process);
  }

  private emit(name: string, value: unknown): void {
    this.handlers.get(name)?.(value);
  }

  private end(tell: (() => void) | null, afterMs = 0): void {
    if (this.isOver) return;
    this.isOver = true;
    const { path, scope } = this;
    path.streams.delete(this);
    this.onOver();
    if (tell === null || scope.isOver) return;
    path.kernel.at(afterMs, "etcd stream ends", () => !scope.isOver && enter(path.process, tell), path.process);
  }
}

interface WatchRequest {
  requestUnion: { case: "createRequest"; value: KeyRange & { startRevision: bigint } } | { case: "progressRequest" };
}

function openWatch(path: EtcdPath, scope: Scope): ClientStream<WatchRequest, WatchResponse> {
  const { store, kernel, process } = path;
  let watch: WatchStream | null = null;
  const stream = new ClientStream<WatchRequest, WatchResponse>(path, scope, ({ requestUnion: request }) => {
    kernel.at(path.latencyMs(), request.case === "createRequest" ? "watch create" : "watch progress", () => {
      if (!stream.reaches()) return;
      if (request.case === "createRequest") watch = begin(request.value);
      else if (watch?.isSynced)
        store.send(watch, create(WatchResponseSchema, { header: store.header(), watchId: -1n }));
    });
  });
  stream.onOver = () => {
    if (watch === null) return;
    watch.isOver = true;
    store.watches.delete(watch);
  };
  return stream;

  function begin({ key, rangeEnd, startRevision }: KeyRange & { startRevision: bigint }): WatchStream {
    const made: WatchStream = {
      wants: wants({ key, rangeEnd }),
      nextRevision: startRevision,
      isSynced: false,
      isOver: false,
      deliver: (response, atMs) => stream.deliver(response, atMs),
      broke: () => stream.broke(),
    };
    store.watches.add(made);
    store.send(made, create(WatchResponseSchema, { header: store.header(), watchId: 1n, created: true }));
    // What happened before is sent later, by another part of the server.
    kernel.at(process.random.between(1, 60), "watch sync", () => {
      made.isSynced = true;
      store.feed(made);
    });
    return made;
  }
}
