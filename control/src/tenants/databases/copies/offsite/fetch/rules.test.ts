import { expect, test } from "vitest";
import { type FetchFacts, type FetchNode, fetchRefusal } from "./rules.ts";

const nodeFacts: FetchNode = { name: "node-2", takesWork: true, isFull: false, diskMb: 1_000 };
const facts: FetchFacts = {
  ...{ hasBucket: true, isThere: true, isFetching: false },
  node: nodeFacts,
  sizeMb: 900,
};
const node = (changes: Partial<FetchNode>): Partial<FetchFacts> => ({ node: { ...nodeFacts, ...changes } });

test.each<[changes: Partial<FetchFacts>, says: RegExp | null]>([
  [{}, null],
  [{ hasBucket: false }, /SVC_S3_ENDPOINT/],
  [{ isThere: false }, /no copy of this database off-site/],
  [{ isFetching: true }, /already/],
  [{ node: null }, /no such machine/],
  [node({ takesWork: false }), /^node-2 takes no new work/],
  [node({ isFull: true }), /disk of node-2 has too little free space.*Make room there, or name another/],
  [node({ diskMb: 800 }), /900 MiB.*node-2 800 MiB/],
  [node({ diskMb: 0 }), null],
])("%j", (changes, says) => {
  const refusal = fetchRefusal({ ...facts, ...changes });
  if (says === null) expect(refusal).toBeNull();
  else expect(refusal).toMatchObject({ code: "CONFLICT", message: expect.stringMatching(says) });
});
