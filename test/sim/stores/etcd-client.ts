import type { Entry, Etcd } from "@svc/control/stores/etcd/index";
import { type Process, type Wait, type Work, wait, waitFor } from "../kernel/kernel.ts";
import { virtualLog } from "../machines/log.ts";
import type { Txn, TxnResult, Writer } from "./etcd.ts";
import { createVirtualEtcd, type EtcdPath } from "./etcd-path.ts";

/** One replica's client of etcd as loops that are still generators have it: the product's, of the present life. */
export class EtcdClient {
  private readonly process: Process;
  private readonly path: EtcdPath;
  private present: { life: number; etcd: Etcd } | null = null;
  private asks: Writer | null = null;

  constructor(path: EtcdPath) {
    this.process = path.process;
    this.path = path;
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
