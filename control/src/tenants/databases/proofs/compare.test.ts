import { expect, test } from "vitest";
import type { SourceTable } from "../../../stores/db/columns.ts";
import { compareProof, type Found } from "./compare.ts";

const table = (name: string, rows: number | null, counter: string | null = "1"): SourceTable => ({
  ...{ schema: "public", name, rows, counter },
});
const found = (...tables: [name: string, rows: number][]): Found => ({
  tables: tables.map(([name, rows]) => ({ schema: "public", name, rows })),
  isCut: false,
});

test.each<{ when: string; before: SourceTable[]; after?: SourceTable[]; in: Found; is: object }>([
  { when: "there is nothing", before: [], in: found(), is: { problem: null, exact: 0, present: 0 } },
  { when: "all is as it was", before: [table("a", 3)], in: found(["a", 3]), is: { problem: null, exact: 1 } },
  {
    when: "a row is missing",
    before: [table("a", 3)],
    in: found(["a", 2]),
    is: { problem: /public\.a has 2 .* not 3/ },
  },
  { when: "a table is missing", before: [table("a", 3)], in: found(), is: { problem: /public\.a is missing/ } },
  {
    when: "one that is missing may not have been told of",
    before: [table("a", 3)],
    in: { tables: [], isCut: true },
    is: { problem: null, exact: 0, present: 0 },
  },
  {
    when: "somebody wrote meanwhile",
    before: [table("a", 3)],
    after: [table("a", null, "2")],
    in: found(["a", 9]),
    is: { problem: null, exact: 0, present: 1 },
  },
  {
    when: "nobody can tell whether somebody wrote",
    before: [table("a", 3, null)],
    after: [table("a", null, null)],
    in: found(["a", 9]),
    is: { problem: null, present: 1 },
  },
  {
    when: "its rows were not counted",
    before: [table("a", null)],
    in: found(["a", 9]),
    is: { problem: null, present: 1 },
  },
  { when: "it was dropped meanwhile", before: [table("a", 3)], after: [], in: found(), is: { problem: null } },
  { when: "one was made meanwhile", before: [], after: [table("a", 1)], in: found(["a", 1]), is: { problem: null } },
  {
    when: "another schema has one of that name",
    before: [{ ...table("a", 3), schema: "own" }],
    in: found(["a", 3]),
    is: { problem: /own\.a is missing/ },
  },
])("when $when", ({ before, after = before, in: restored, is }) => {
  const { problem, ...counts } = is as { problem: RegExp | null };
  const compared = compareProof(before, after, restored);
  expect(compared).toMatchObject(counts);
  if (problem === null) expect(compared.problem).toBeNull();
  else expect(compared.problem).toMatch(problem);
});
