import type { KeyValue } from "@svc/proto/etcd";

/** A key with its value, both UTF-8. Revisions are etcd's, counted over the whole store. */
export interface Entry {
  readonly key: string;
  readonly value: string;
  /** The revision at which the key appeared; changes only by deleting and creating it again. */
  readonly createRevision: bigint;
  /** The revision of the last write. */
  readonly modRevision: bigint;
  /** The lease that the key dies with; 0n without one. */
  readonly leaseId: bigint;
}

/** One change of a key. A deletion carries the revision at which the key went. */
export type WatchEvent =
  | { readonly type: "put"; readonly key: string; readonly modRevision: bigint; readonly entry: Entry }
  | { readonly type: "delete"; readonly key: string; readonly modRevision: bigint };

export const textOf = (bytes: Uint8Array): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");

export const bytesOf = (text: string): Uint8Array => Buffer.from(text, "utf8");

export const entryOf = (kv: KeyValue): Entry => ({
  key: textOf(kv.key),
  value: textOf(kv.value),
  createRevision: kv.createRevision,
  modRevision: kv.modRevision,
  leaseId: kv.lease,
});
