import { create } from "@bufbuild/protobuf";
import { snapshotChanges } from "@svc/control/stores/etcd/diff";
import type { Entry, WatchEvent } from "@svc/control/stores/etcd/entry";
import { EtcdError, UnknownOutcome } from "@svc/control/stores/etcd/errors";
import { onNewStream, type Resume, resumeAfter } from "@svc/control/stores/etcd/resume";
import type { WatchResponse } from "@svc/proto/etcd";
import { WatchResponseSchema } from "@svc/proto/etcd";
import { backOffMs } from "@svc/runtime/retry";
import type { Cores } from "../cores.ts";
import { type Kernel, type Process, pause, type Scope, type Wait, type Work, wait } from "../kernel/kernel.ts";
import type { EtcdStore, Txn, TxnResult, WatchStream } from "./etcd.ts";
import type { EtcdPath, OpenStream } from "./etcd-path.ts";

const callTimeoutMs = 3_000;
const watchSilenceMs = 15_000;
const reopenBackOff = { firstMs: 50, maxMs: 1_000 };

/** One replica's way to etcd. */
export class EtcdClient {
  readonly kernel: Kernel;
  readonly store: EtcdStore;
  readonly process: Process;
  readonly path: EtcdPath;
  readonly cores: Cores;

  constructor(path: EtcdPath, cores: Cores) {
    this.kernel = path.kernel;
    this.store = path.store;
    this.process = path.process;
    this.path = path;
    this.cores = cores;
  }

  /** One attempt. A read that fails changed nothing; a write that fails may have been applied, or may still be. */
  private call<T>(tag: string, kind: "read" | "write", apply: () => T): Wait<T> {
    return (done, fail, scope) => {
      const { kernel, process } = this;
      const { random } = process;
      const { clusterId } = this.store;
      let isOver = false;
      const finish = (act: () => void) => {
        if (isOver) return;
        isOver = true;
        timer.cancel();
        act();
      };
      const lost = () =>
        fail(kind === "write" ? new UnknownOutcome(tag) : new EtcdError("TIMEOUT", `${tag}: no answer`));
      const timer = scope.after(callTimeoutMs, "etcd timeout", () => finish(lost));
      const isUnknown = kind === "write" && random.chance(this.path.trouble.unknownShare);
      const isLate = isUnknown && random.chance(0.5);
      const delayMs = this.path.latencyMs() + (isLate ? random.between(0, 2 * callTimeoutMs) : 0);
      const answerMs = this.path.latencyMs();
      const refusedMs = random.between(5, 200);
      kernel.at(delayMs, tag, () => {
        if (!this.path.isReachable) {
          // Refused connections are noticed at once, cut ones by the deadline.
          if (!this.store.isUp) kernel.at(refusedMs, "etcd refused", () => !scope.isOver && finish(lost), process);
          return;
        }
        // What was sent to a store that was stopped since never gets to the one that was restored.
        if (this.store.clusterId !== clusterId) return;
        let answer: () => void;
        try {
          const result = apply();
          answer = () => done(result);
        } catch (error) {
          answer = () => fail(new EtcdError("LEASE_NOT_FOUND", String(error)));
        }
        if (isUnknown) return;
        kernel.at(answerMs, "etcd answer", () => this.path.isReachable && !scope.isOver && finish(answer), process);
      });
    };
  }

  txn(txn: Txn): Wait<TxnResult> {
    return this.call("etcd txn", "write", () => this.store.txn(txn));
  }

  *get(key: string): Work<Entry | null> {
    return yield* this.read(() => this.store.get(key));
  }

  *range(under: string): Work<{ entries: Entry[]; revision: bigint; clusterId: bigint }> {
    return yield* this.read(() => ({
      entries: this.store.range(under),
      revision: this.store.revision,
      clusterId: this.store.clusterId,
    }));
  }

  /** A range as it was a while ago, when a member that has fallen behind answers; else as it is. */
  *rangeOfAnyMember(under: string): Work<{ entries: Entry[]; revision: bigint }> {
    const { untilMs, backup } = this.path.stale;
    if (backup?.clusterId !== this.store.clusterId || this.kernel.nowMs >= untilMs) return yield* this.range(under);
    return yield* this.read(() => ({
      entries: backup.entries.filter(({ key }) => key.startsWith(under)),
      revision: backup.revision,
    }));
  }

  /** Reads are repeated for a while. */
  private *read<T>(apply: () => T): Work<T> {
    const untilMs = this.process.monoMs() + 2 * callTimeoutMs;
    for (let failures = 1; ; failures += 1) {
      try {
        return yield* wait(this.call("etcd read", "read", apply));
      } catch (error) {
        if (this.process.monoMs() >= untilMs) throw error;
        yield* wait(pause(backOffMs(failures, { firstMs: 50, maxMs: 1_000 }, this.process.random.next())));
      }
    }
  }

  *grant(ttlMs: number): Work<{ id: bigint; sentAtMs: number; ttlSeconds: bigint }> {
    let sentAtMs = 0;
    const untilMs = this.process.monoMs() + 2 * callTimeoutMs;
    for (;;) {
      sentAtMs = this.process.bootMs();
      try {
        const id = yield* wait(this.call("lease grant", "read", () => this.store.grant(ttlMs)));
        return { id, sentAtMs, ttlSeconds: BigInt(Math.ceil(ttlMs / 1000)) };
      } catch (error) {
        if (this.process.monoMs() >= untilMs) throw error;
        yield* wait(pause(200));
      }
    }
  }

  keepAlive(id: bigint): Wait<bigint> {
    return this.call("lease keep-alive", "read", () => this.store.keepAlive(id));
  }

  /** Never fails: what could not be revoked runs out. */
  revoke(id: bigint): void {
    const { kernel } = this;
    kernel.at(this.path.latencyMs(), "lease revoke", () => this.path.isReachable && this.store.endLease(id));
  }

  // ------------------------------------------------------------------ watch

  openWatch(
    under: string,
    startRevision: bigint,
    on: { response(response: WatchResponse): void; broke(): void },
    scope: Scope,
  ): { progress(): void; close(): void } {
    const { kernel, store, process } = this;
    const end = (isTold: boolean) => {
      if (watch.isOver) return;
      watch.isOver = true;
      store.watches.delete(watch);
      this.path.streams.delete(stream);
      if (isTold) kernel.at(this.path.latencyMs(), "watch broke", () => !scope.isOver && on.broke(), process);
    };
    let lastMs = 0;
    const stream: OpenStream = {
      stalledUntilMs: 0,
      broke: () => watch.broke(),
      drop: () => end(false),
    };
    const watch: WatchStream = {
      wants: (key) => key.startsWith(under),
      nextRevision: startRevision,
      isSynced: false,
      isOver: false,
      deliver: (response, soonestMs) => {
        const atMs = Math.max(soonestMs, lastMs, stream.stalledUntilMs);
        lastMs = atMs;
        kernel.at(
          atMs - kernel.nowMs,
          "watch response",
          () => {
            if (scope.isOver || watch.isOver) return;
            // What is on its way over a cut path never comes, and nothing after it: the client has to find out.
            if (this.path.isReachable) on.response(response);
            else end(false);
          },
          process,
        );
      },
      broke: () => end(process.random.chance(0.8)),
    };
    this.path.streams.add(stream);
    kernel.at(this.path.latencyMs(), "watch create", () => {
      if (!this.path.isReachable) return end(!store.isUp);
      if (watch.isOver) return;
      store.watches.add(watch);
      store.send(watch, create(WatchResponseSchema, { header: store.header(), watchId: 1n, created: true }));
      // What happened before is sent later, by another part of the server.
      kernel.at(process.random.between(1, 60), "watch sync", () => {
        watch.isSynced = true;
        store.feed(watch);
      });
    });
    return {
      progress: () =>
        void kernel.at(this.path.latencyMs(), "watch progress", () => {
          if (!this.path.isReachable || watch.isOver || !watch.isSynced) return;
          store.send(watch, create(WatchResponseSchema, { header: store.header(), watchId: -1n }));
        }),
      close: () => end(false),
    };
  }
}

export interface ViewChange<T> {
  type: "put" | "delete";
  key: string;
  value: T;
}

/** The decoded values under a prefix, kept up to date by one watch: mirrors `control/src/stores/etcd/{watch,view}.ts`. */
export class View<T> {
  revision = 0n;
  readonly values = new Map<string, T>();
  relists = 0;
  private raw = new Map<string, Entry>();
  private readonly subscribers = new Set<(changes: readonly ViewChange<T>[], revision: bigint) => void>();

  private readonly client: EtcdClient;
  readonly under: string;
  private readonly decode: (entry: Entry) => T;

  constructor(client: EtcdClient, under: string, decode: (entry: Entry) => T, scope: Scope) {
    this.client = client;
    this.under = under;
    this.decode = decode;
    scope.spawn(this.follow(scope));
  }

  get(key: string): T | undefined {
    return this.values.get(key);
  }

  subscribe(callback: (changes: readonly ViewChange<T>[], revision: bigint) => void): () => void {
    this.subscribers.add(callback);
    return () => void this.subscribers.delete(callback);
  }

  private apply(events: readonly WatchEvent[], at: bigint): void {
    const changes: ViewChange<T>[] = [];
    for (const event of events) {
      if (event.type === "put") {
        const value = this.decode(event.entry);
        this.raw.set(event.key, event.entry);
        this.values.set(event.key, value);
        changes.push({ type: "put", key: event.key, value });
      } else {
        this.raw.delete(event.key);
        const value = this.values.get(event.key);
        if (this.values.delete(event.key) && value !== undefined)
          changes.push({ type: "delete", key: event.key, value });
      }
    }
    this.revision = at;
    for (const callback of [...this.subscribers]) callback(changes, at);
  }

  private *follow(scope: Scope): Work {
    const { client } = this;
    const { random } = client.process;
    let resume: Resume | null = null;
    let failures = 0;
    for (;;) {
      try {
        if (resume === null) {
          const { entries, revision, clusterId } = yield* client.range(this.under);
          this.relists += 1;
          this.apply(snapshotChanges(this.raw, entries, revision), revision);
          resume = resumeAfter(revision, clusterId);
        }
        const ended: { resume: Resume | null; progressed: boolean } = yield* wait(this.stream(resume));
        resume = ended.resume;
        if (ended.progressed) failures = 0;
      } catch (error) {
        if (!(error instanceof EtcdError)) throw error;
      }
      failures += 1;
      yield* wait(pause(backOffMs(failures, reopenBackOff, random.next())));
      if (scope.isOver) return;
    }
  }

  private stream(from: Resume): Wait<{ resume: Resume | null; progressed: boolean }> {
    return (done, _fail, scope) => {
      let resume = onNewStream(from);
      let progressed = false;
      let silentMs = 0;
      let isOver = false;
      const end = (next: Resume | null) => {
        if (isOver) return;
        isOver = true;
        watch.close();
        done({ resume: next, progressed });
      };
      const watch = this.client.openWatch(
        this.under,
        resume.nextRevision,
        {
          response: (response) => {
            if (isOver) return;
            silentMs = 0;
            const step = this.client.cores.stepResume(resume, response);
            if (step.do === "relist") return end(null);
            if (step.do === "reopen") return end(resume);
            resume = step.resume;
            progressed ||= !response.created;
            if (step.events.length > 0) this.apply(step.events, resume.nextRevision - 1n);
          },
          broke: () => end(resume),
        },
        scope,
      );
      const check = () => {
        if (isOver) return;
        silentMs += watchSilenceMs / 3;
        if (silentMs >= watchSilenceMs) return end(resume);
        watch.progress();
        scope.after(watchSilenceMs / 3, "watch check", check);
      };
      scope.after(watchSilenceMs / 3, "watch check", check);
    };
  }
}
