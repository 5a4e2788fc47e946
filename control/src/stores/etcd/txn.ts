import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import {
  Compare_CompareResult,
  Compare_CompareTarget,
  type CompareSchema,
  type RequestOpSchema,
  type TxnRequest,
  TxnRequestSchema,
  type TxnResponse,
} from "@svc/proto/etcd";
import { bytesOf, type Entry, entryOf } from "./entry.ts";
import { EtcdError } from "./errors.ts";

/** A condition on one key. All of a transaction's guards must hold for its `ops` to be applied. */
export type Guard =
  | { readonly key: string; readonly compare: "absent" }
  | { readonly key: string; readonly compare: "modRevision" | "createRevision"; readonly value: bigint };

/** One operation. `leaseId` lets the key die with a lease; a `get` yields an element of the result's `reads`. */
export type Op =
  | { readonly put: { readonly key: string; readonly value: string; readonly leaseId?: bigint } }
  | { readonly delete: { readonly key: string } }
  | { readonly get: { readonly key: string } };

/** `ops` when every guard holds, else `orElse`. No key may be written twice in one of the lists. */
export interface Txn {
  readonly guards?: readonly Guard[];
  readonly ops: readonly Op[];
  readonly orElse?: readonly Op[];
}

/** `revision` is the store's after the transaction; `reads` has one element per `get` of the list that ran, null when absent. */
export interface TxnResult {
  readonly succeeded: boolean;
  readonly revision: bigint;
  readonly reads: (Entry | null)[];
}

/** etcd takes 128 operations and 1.5 MiB; ours stay well below, so that one writer never stalls the others. */
export const txnLimits = { ops: 120, guards: 121, sizeBytes: 256 * 1024 } as const;

type CompareInit = MessageInitShape<typeof CompareSchema>;
type RequestOpInit = MessageInitShape<typeof RequestOpSchema>;

function compareOf(guard: Guard): CompareInit {
  const key = bytesOf(guard.key);
  const result = Compare_CompareResult.Equal;
  switch (guard.compare) {
    case "absent":
      // A key that is not there has create revision 0.
      return { key, result, target: Compare_CompareTarget.Create, targetUnion: { case: "createRevision", value: 0n } };
    case "createRevision":
      return {
        key,
        result,
        target: Compare_CompareTarget.Create,
        targetUnion: { case: "createRevision", value: guard.value },
      };
    case "modRevision":
      return {
        key,
        result,
        target: Compare_CompareTarget.Mod,
        targetUnion: { case: "modRevision", value: guard.value },
      };
  }
}

function requestOf(op: Op): RequestOpInit {
  if ("put" in op) {
    const { key, value, leaseId = 0n } = op.put;
    return { request: { case: "requestPut", value: { key: bytesOf(key), value: bytesOf(value), lease: leaseId } } };
  }
  if ("delete" in op) return { request: { case: "requestDeleteRange", value: { key: bytesOf(op.delete.key) } } };
  return { request: { case: "requestRange", value: { key: bytesOf(op.get.key) } } };
}

/** No part has more: three bytes for each UTF-16 unit of its texts, and fewer than a hundred for all else. */
function mostBytesOf(part: Guard | Op): number {
  if ("put" in part) return 100 + 3 * (part.put.key.length + part.put.value.length);
  const { key } = "delete" in part ? part.delete : "get" in part ? part.get : part;
  return 100 + 3 * key.length;
}

/** The request for `txn`. @throws EtcdError TOO_LARGE when it is over one of the limits. */
export function txnRequest({ guards = [], ops, orElse = [] }: Txn): TxnRequest {
  const { ops: maxOps, guards: maxGuards, sizeBytes: maxSizeBytes } = txnLimits;
  const count = Math.max(ops.length, orElse.length);
  if (count > maxOps) throw new EtcdError("TOO_LARGE", `transaction of ${count} operations, limit ${maxOps}`);
  if (guards.length > maxGuards) {
    throw new EtcdError("TOO_LARGE", `transaction with ${guards.length} guards, limit ${maxGuards}`);
  }
  const request = create(TxnRequestSchema, {
    compare: guards.map(compareOf),
    success: ops.map(requestOf),
    failure: orElse.map(requestOf),
  });
  // What is certainly small enough is not encoded just to be measured.
  if ([...guards, ...ops, ...orElse].reduce((sum, part) => sum + mostBytesOf(part), 0) <= maxSizeBytes) return request;
  const sizeBytes = toBinary(TxnRequestSchema, request).byteLength;
  if (sizeBytes > maxSizeBytes) {
    throw new EtcdError("TOO_LARGE", `transaction of ${sizeBytes} bytes, limit ${maxSizeBytes}`);
  }
  return request;
}

/** What etcd answered. */
export function txnResult(response: TxnResponse): TxnResult {
  const reads = response.responses.flatMap(({ response: part }) => {
    if (part.case !== "responseRange") return [];
    const kv = part.value.kvs[0];
    return [kv ? entryOf(kv) : null];
  });
  return { succeeded: response.succeeded, revision: response.header?.revision ?? 0n, reads };
}
