import { textOf } from "@svc/control/stores/etcd/entry";
import type { Guard } from "@svc/control/stores/etcd/txn";
import type { TxnRequest } from "@svc/proto/etcd";
import type { Op, Txn } from "./etcd.ts";

type Compare = TxnRequest["compare"][number];
type RequestOp = TxnRequest["success"][number];

/** What a client has put into a request: the other way round than `control/src/stores/etcd/txn.ts`. */
export function txnOf(request: unknown): Omit<Txn, "writer"> {
  const { compare, success, failure } = request as TxnRequest;
  return { guards: compare.map(guardOf), ops: success.map(opOf), orElse: failure.map(opOf) };
}

function guardOf({ key: bytes, targetUnion: { case: target, value } }: Compare): Guard {
  const key = textOf(bytes);
  if (target === "modRevision") return { key, compare: "modRevision", value };
  if (target !== "createRevision") throw new Error(`the virtual etcd does not compare ${target}`);
  return value === 0n ? { key, compare: "absent" } : { key, compare: "createRevision", value };
}

function opOf({ request }: RequestOp): Op {
  switch (request.case) {
    case "requestPut": {
      const { key, value, lease } = request.value;
      const put = { key: textOf(key), value: textOf(value) };
      return { put: lease === 0n ? put : { ...put, leaseId: lease } };
    }
    case "requestDeleteRange":
      return { delete: { key: textOf(request.value.key) } };
    case "requestRange":
      return { get: { key: textOf(request.value.key) } };
    default:
      throw new Error(`the virtual etcd does not do ${request.case}`);
  }
}
