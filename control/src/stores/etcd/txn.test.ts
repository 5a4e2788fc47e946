import { create } from "@bufbuild/protobuf";
import { Compare_CompareTarget, TxnResponseSchema } from "@svc/proto/etcd";
import { expect, it, test } from "vitest";
import { bytesOf, textOf } from "./entry.ts";
import { type Guard, type Op, type Txn, txnRequest, txnResult } from "./txn.ts";

const put = (key: string, value = ""): Op => ({ put: { key, value } });
const absent = (key: string): Guard => ({ key, compare: "absent" });
const puts = (count: number) => Array.from({ length: count }, (_, index) => put(`k${index}`));

const { Create, Mod } = Compare_CompareTarget;
const guards: { guard: Guard; target: number; union: object }[] = [
  { guard: { key: "k", compare: "absent" }, target: Create, union: { case: "createRevision", value: 0n } },
  {
    guard: { key: "k", compare: "createRevision", value: 4n },
    target: Create,
    union: { case: "createRevision", value: 4n },
  },
  { guard: { key: "k", compare: "modRevision", value: 5n }, target: Mod, union: { case: "modRevision", value: 5n } },
];
test.each(guards)("the guard $guard.compare compares $union.case", ({ guard, target, union }) => {
  const [compare] = txnRequest({ guards: [guard], ops: [] }).compare;
  expect(compare).toMatchObject({ target, targetUnion: union });
});

const tooLarge: { when: string; txn: Txn; says: RegExp }[] = [
  { when: "operations", txn: { ops: puts(121) }, says: /121 operations, limit 120/ },
  { when: "alternative operations", txn: { ops: [], orElse: puts(121) }, says: /121 operations/ },
  {
    when: "guards",
    txn: { ops: [], guards: Array.from({ length: 122 }, (_, n) => absent(`k${n}`)) },
    says: /122 guards, limit 121/,
  },
  { when: "bytes", txn: { ops: [put("k", "x".repeat(256 * 1024))] }, says: /bytes, limit 262144/ },
  { when: "bytes of few characters", txn: { ops: [put("k", "漢".repeat(87_400))] }, says: /bytes, limit 262144/ },
  {
    when: "bytes of all its parts",
    txn: {
      guards: [absent("g".repeat(90_000))],
      ops: [put("k", "x".repeat(90_000))],
      orElse: [put("x".repeat(90_000))],
    },
    says: /bytes, limit 262144/,
  },
];
test.each(tooLarge)("a transaction with too many $when is refused", ({ txn, says }) => {
  expect(() => txnRequest(txn)).toThrowError(
    expect.objectContaining({ code: "TOO_LARGE", message: expect.stringMatching(says) }),
  );
});

it("the largest transaction passes", () => {
  expect(txnRequest({ ops: puts(120) }).success).toHaveLength(120);
  expect(txnRequest({ ops: [put("k", "漢".repeat(87_000))] }).success).toHaveLength(1);
});

it("a put carries its lease and a delete one key", () => {
  const { success } = txnRequest({ ops: [{ put: { key: "a", value: "ä", leaseId: 9n } }, { delete: { key: "b" } }] });
  const [first, second] = success.map(({ request }) => request);
  if (first?.case !== "requestPut" || second?.case !== "requestDeleteRange") throw new Error("wrong requests");
  expect([textOf(first.value.value), first.value.lease]).toEqual(["ä", 9n]);
  expect([textOf(second.value.key), second.value.rangeEnd.length]).toEqual(["b", 0]);
});

it("reads come in the order of the gets, null for an absent key", () => {
  const response = create(TxnResponseSchema, {
    header: { revision: 12n },
    succeeded: true,
    responses: [
      { response: { case: "responseRange", value: {} } },
      { response: { case: "responsePut", value: {} } },
      {
        response: {
          case: "responseRange",
          value: { kvs: [{ key: bytesOf("k"), value: bytesOf("v"), modRevision: 3n }] },
        },
      },
    ],
  });
  expect(txnResult(response)).toMatchObject({
    succeeded: true,
    revision: 12n,
    reads: [null, { key: "k", value: "v", modRevision: 3n }],
  });
});
