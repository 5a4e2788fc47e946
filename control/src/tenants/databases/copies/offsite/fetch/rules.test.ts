import { expect, test } from "vitest";
import { type FetchFacts, fetchRefusal } from "./rules.ts";

const facts: FetchFacts = {
  ...{ hasBucket: true, isThere: true, isFetching: false },
  node: { name: "node-2", takesWork: true },
};

test.each<[changes: Partial<FetchFacts>, says: RegExp | null]>([
  [{}, null],
  [{ hasBucket: false }, /SVC_S3_ENDPOINT/],
  [{ isThere: false }, /no copy of this database off-site/],
  [{ isFetching: true }, /already/],
  [{ node: null }, /no such machine/],
  [{ node: { name: "node-2", takesWork: false } }, /^node-2 takes no new work/],
])("%j", (changes, says) => {
  const refusal = fetchRefusal({ ...facts, ...changes });
  if (says === null) expect(refusal).toBeNull();
  else expect(refusal).toMatchObject({ code: "CONFLICT", message: expect.stringMatching(says) });
});
