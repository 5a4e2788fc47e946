import { describe, expect, test } from "vitest";
import {
  emptyTableOutbox,
  isWhole,
  nextTable,
  type PublishedTable,
  tableAnswered,
  vouchesForShrinking,
} from "./table-outbox.ts";

const aTable = (generation: number, hosts: Record<string, bigint>): PublishedTable => ({
  generation,
  hosts: new Map(Object.entries(hosts)),
  emptied: false,
});
const accepted = (generation: number) => ({ generation, refused: false, resync: false });

function afterFirst(table: PublishedTable) {
  const first = nextTable(emptyTableOutbox, table);
  if (first === null) throw new Error("expected a first table");
  return { ...first, ready: tableAnswered(first.outbox, accepted(table.generation)) };
}

describe("the table of a router", () => {
  test("begins complete", () => {
    const { message, outbox } = afterFirst(aTable(3, { "b.test": 2n, "a.test": 1n }));
    expect(message).toEqual({
      kind: "complete",
      appliesTo: 0,
      generation: 3,
      upsertHosts: ["a.test", "b.test"],
      removedHosts: [],
    });
    expect(nextTable(outbox, aTable(4, {}))).toBeNull();
  });

  test("goes on with what changed since the generation that the router has", () => {
    const { ready } = afterFirst(aTable(3, { "a.test": 1n, "b.test": 2n, "c.test": 2n }));
    expect(nextTable(ready, aTable(6, { "a.test": 1n, "b.test": 9n, "d.test": 9n }))?.message).toEqual({
      kind: "delta",
      appliesTo: 3,
      generation: 6,
      upsertHosts: ["b.test", "d.test"],
      removedHosts: ["c.test"],
    });
  });

  test("is not sent again while nothing changes", () => {
    const table = aTable(3, { "a.test": 1n });
    expect(nextTable(afterFirst(table).ready, table)).toBeNull();
  });

  test("is confirmed even when only the generation rose", () => {
    const { ready } = afterFirst(aTable(3, { "a.test": 1n }));
    expect(nextTable(ready, aTable(4, { "a.test": 1n }))?.message).toMatchObject({ generation: 4, upsertHosts: [] });
  });

  test.each([
    { when: "refused", answer: { generation: 2, refused: true, resync: false } },
    { when: "asked for anew", answer: { generation: 3, refused: false, resync: true } },
  ])("is complete again after it was $when", ({ answer }) => {
    const { outbox } = afterFirst(aTable(3, { "a.test": 1n }));
    expect(nextTable(tableAnswered(outbox, answer), aTable(3, { "a.test": 1n }))?.message.kind).toBe("complete");
  });

  test("goes on after an answer that names single hosts, also a late one", () => {
    const { outbox, ready } = afterFirst(aTable(3, { "a.test": 1n }));
    const answer = { generation: 3, refused: true, resync: false };
    expect(tableAnswered(outbox, answer)).toEqual(ready);
    expect(tableAnswered(ready, answer)).toEqual(ready);
  });

  test("waits on when the answer is to something else", () => {
    const { outbox } = afterFirst(aTable(3, { "a.test": 1n }));
    expect(tableAnswered(outbox, accepted(2))).toEqual(outbox);
  });
});

describe("a table is whole", () => {
  const meta = { modRevision: 10n, count: 2 };
  test.each([
    { when: "the meta key came last", entries: { "a.test": 3n, "b.test": 9n }, is: true },
    { when: "the meta key came in the same transaction", entries: { "a.test": 3n, "b.test": 10n }, is: true },
    { when: "an entry of the next generation is there", entries: { "a.test": 3n, "b.test": 11n }, is: false },
    { when: "an entry is gone already", entries: { "a.test": 3n }, is: false },
    { when: "an entry was exchanged for a new one", entries: { "a.test": 3n, "c.test": 11n }, is: false },
  ])("$is when $when", ({ entries, is }) => {
    expect(isWhole(new Map(Object.entries(entries)), meta)).toBe(is);
  });
});

test.each([
  { when: "hosts are left", kind: "delta", removed: 500, left: { "a.test": 1n }, emptied: false, is: true },
  { when: "the last few hosts went", kind: "delta", removed: 10, left: {}, emptied: false, is: true },
  { when: "every host of many went at once", kind: "delta", removed: 11, left: {}, emptied: false, is: false },
  { when: "somebody took every host of many away", kind: "delta", removed: 11, left: {}, emptied: true, is: true },
  { when: "a whole table is empty", kind: "complete", removed: 0, left: {}, emptied: false, is: false },
  { when: "a whole table was emptied by somebody", kind: "complete", removed: 0, left: {}, emptied: true, is: true },
] as const)("control vouches: $is when $when", ({ kind, removed, left, emptied, is }) => {
  const removedHosts = Array.from({ length: removed }, (_, index) => `h${index}.test`);
  const message = { kind, appliesTo: 0, generation: 1, upsertHosts: [], removedHosts };
  expect(vouchesForShrinking(message, { ...aTable(1, left), emptied })).toBe(is);
});
