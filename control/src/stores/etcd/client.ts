import type { RangeResponse } from "@svc/proto/etcd";
import { unary } from "../grpc/adapter.ts";
import { type Connection, type ConnectionOptions, connect, requireLeader } from "./connection.ts";
import { type Entry, entryOf } from "./entry.ts";
import { EtcdError } from "./errors.ts";
import { after, type KeyRange, oneKey, underPrefix } from "./key-range.ts";
import { type Txn, type TxnResult, txnRequest, txnResult } from "./txn.ts";

/** Every key of a range as of one revision, sorted by key. */
export interface Snapshot {
  readonly revision: bigint;
  readonly entries: readonly Entry[];
  /** Differs after etcd was set up anew: revisions cannot be compared across. */
  readonly clusterId: bigint;
}

/** A client of an etcd cluster. Every call has a deadline; everything it opened ends with `close`. */
export interface Etcd extends AsyncDisposable {
  /** The entry of `key`, null when absent. Linearizable; repeated on failure. @throws EtcdError. */
  get(key: string): Promise<Entry | null>;
  /** All entries under `prefix` as of one revision. Linearizable; repeated on failure. @throws EtcdError. */
  range(prefix: string): Promise<Snapshot>;
  /**
   * Applies a transaction, in one attempt.
   *
   * @throws UnknownOutcome when it may or may not have been applied, EtcdError when it certainly was not
   * (TOO_LARGE before anything is sent: at most 120 operations and 256 KiB).
   */
  txn(txn: Txn): Promise<TxnResult>;
  close(): Promise<void>;
  /** For the other files of this folder. */
  readonly connection: Connection;
}

const pageKeys = 1_000;
const rangeAttempts = 3;

/** One page of a range. `revision` 0n means the newest. */
function readPage(connection: Connection, range: KeyRange, limit: number, revision: bigint, signal?: AbortSignal) {
  const request = { ...range, limit: BigInt(limit), revision };
  return connection.read<RangeResponse>(
    "range",
    (member, deadline, stop) => unary((reply) => member.kv.range(request, requireLeader, { deadline }, reply), stop),
    signal,
  );
}

/** Reads a range page by page at the revision of its first page. @throws EtcdError, COMPACTED when that revision went. */
async function readPages(
  connection: Connection,
  range: KeyRange,
  limit: number,
  signal?: AbortSignal,
): Promise<Snapshot> {
  const entries: Entry[] = [];
  let rest = range;
  let revision = 0n;
  let clusterId = 0n;
  for (;;) {
    const page = await readPage(connection, rest, limit, revision, signal);
    if (revision === 0n) {
      revision = page.header?.revision ?? 0n;
      clusterId = page.header?.clusterId ?? 0n;
    }
    for (const kv of page.kvs) entries.push(entryOf(kv));
    const last = page.kvs.at(-1);
    if (!page.more || last === undefined) return { revision, entries, clusterId };
    rest = after(range, last.key);
  }
}

/** Every entry of `range` as of one revision. @throws EtcdError. */
export async function readRange(connection: Connection, range: KeyRange, signal?: AbortSignal): Promise<Snapshot> {
  let limit = pageKeys;
  for (let attempt = 1; ; attempt++) {
    try {
      return await readPages(connection, range, limit, signal);
    } catch (error) {
      // Compacted between two pages: begin again. Refused: perhaps one page was over the size limit.
      const again = error instanceof EtcdError && (error.code === "COMPACTED" || error.code === "REFUSED");
      if (!again || attempt >= rangeAttempts) throw error;
      if (error.code === "REFUSED") limit = Math.ceil(limit / 16);
    }
  }
}

/** A client of the cluster at `endpoints`. It connects with its first call. */
export function createEtcd(options: ConnectionOptions): Etcd {
  const connection = connect(options);
  const close = async () => connection.close();
  return {
    connection,
    async get(key) {
      const page = await readPage(connection, oneKey(key), 1, 0n);
      const kv = page.kvs[0];
      return kv ? entryOf(kv) : null;
    },
    range: (prefix) => readRange(connection, underPrefix(prefix)),
    async txn(txn) {
      const request = txnRequest(txn);
      return txnResult(
        await connection.write("transaction", (member, deadline, signal) =>
          unary((reply) => member.kv.txn(request, requireLeader, { deadline }, reply), signal),
        ),
      );
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}
