import { createView, type Entry, type Etcd, type View as ProductView } from "@svc/control/stores/etcd/index";
import type { Cores } from "../cores.ts";
import { type Kernel, type Process, type Scope, type Wait, type Work, wait, waitFor } from "../kernel/kernel.ts";
import { enter } from "../kernel/ports.ts";
import { virtualLog } from "../machines/log.ts";
import type { EtcdStore, Txn, TxnResult, Writer } from "./etcd.ts";
import { createVirtualEtcd, type EtcdPath } from "./etcd-path.ts";

/** One replica's client of etcd as loops that are still generators have it: the product's, of the present life. */
export class EtcdClient {
  readonly kernel: Kernel;
  readonly store: EtcdStore;
  readonly process: Process;
  readonly cores: Cores;
  private readonly path: EtcdPath;
  private present: { life: number; etcd: Etcd } | null = null;
  private asks: Writer | null = null;

  constructor(path: EtcdPath, cores: Cores) {
    this.kernel = path.kernel;
    this.store = path.store;
    this.process = path.process;
    this.path = path;
    this.cores = cores;
  }

  get etcd(): Etcd {
    const { process, path } = this;
    if (this.present?.life !== process.life) {
      const writerOf = (): Writer => this.asks ?? { by: "server", serverId: process.id };
      this.present = { life: process.life, etcd: createVirtualEtcd(path, virtualLog(process), writerOf) };
    }
    return this.present.etcd;
  }

  /** While `begin` asks, it is `writer` who does. */
  as<T>(writer: Writer, begin: () => T): T {
    this.asks = writer;
    try {
      return begin();
    } finally {
      this.asks = null;
    }
  }

  txn({ writer, ...txn }: Txn): Wait<TxnResult> {
    return waitFor(() => this.as(writer, () => this.etcd.txn(txn)));
  }

  *get(key: string): Work<Entry | null> {
    return yield* wait(waitFor(() => this.etcd.get(key)));
  }

  *range(under: string): Work<{ entries: readonly Entry[]; revision: bigint; clusterId: bigint }> {
    return yield* wait(waitFor(() => this.etcd.range(under)));
  }
}

export interface ViewChange<T> {
  type: "put" | "delete";
  key: string;
  value: T;
}

/** The product's view, with its values as a map. */
export class View<T> {
  readonly values = new Map<string, T>();
  private readonly view: ProductView<T>;

  constructor(client: EtcdClient, under: string, decode: (entry: Entry) => T, scope: Scope) {
    const { kernel, process } = client;
    kernel.stir(process);
    this.view = createView(client.etcd, under, (_key, _value, entry) => decode(entry));
    scope.onEnd(() => enter(process, () => void this.view.close()));
    this.view.subscribe((changes) => {
      for (const change of changes) {
        if (change.type === "put") this.values.set(change.key, change.value);
        else this.values.delete(change.key);
      }
    });
  }

  get revision(): bigint {
    return this.view.revision;
  }

  get(key: string): T | undefined {
    return this.view.get(key);
  }

  subscribe(callback: (changes: readonly ViewChange<T>[], revision: bigint) => void): () => void {
    const subscription = this.view.subscribe((changes, revision) =>
      callback(
        changes.map((change) => ({ ...change, value: change.type === "put" ? change.value : change.previous })),
        revision,
      ),
    );
    return () => subscription[Symbol.dispose]();
  }
}
