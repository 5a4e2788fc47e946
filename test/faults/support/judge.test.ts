import { expect, test } from "vitest";
import { innocent, judge } from "./judge.ts";

const heard = (...ids: number[]) => ids.map((id) => ({ id, atMs: id * 10 }));
const rows = (...ids: number[]) => ids.map((id, index) => ({ id, seq: index + 1 }));
const nothing = { ...innocent, unheard: 0, after: 0 };

test.each([
  { when: "all is there", told: heard(1, 2, 3), has: rows(1, 2, 3), says: nothing },
  { when: "nothing was written", told: [], has: [], says: { ...nothing, longestPauseMs: 0 } },
  {
    when: "the writer was cut off before it heard",
    told: heard(1, 3),
    has: rows(1, 2, 3),
    says: { unheard: 1, ...innocent },
  },
  { when: "the end is gone", told: heard(1, 2, 3), has: rows(1, 2), says: { ...nothing, lost: [3] } },
  {
    when: "one in the middle is gone",
    told: heard(1, 2, 3),
    has: rows(1, 3),
    says: { ...nothing, lost: [2], holes: [2] },
  },
  { when: "all is gone", told: heard(1, 2), has: [], says: { ...nothing, lost: [1, 2] } },
  { when: "one is there twice", told: heard(1, 2), has: rows(1, 2, 2), says: { ...nothing, twice: [2] } },
  { when: "two changed places", told: heard(1, 2, 3), has: rows(1, 3, 2), says: { ...nothing, outOfOrder: [3] } },
])("when $when", ({ told, has, says }) => {
  expect(judge(told, has)).toMatchObject(says);
});

test.each([
  { when: "what is gone came later", coveredAtMs: 20, has: rows(1, 2), says: { ...nothing, after: 2 } },
  { when: "it was acknowledged at that very moment", coveredAtMs: 30, has: rows(1, 2), says: { lost: [3], after: 1 } },
  { when: "a later one is there", coveredAtMs: 20, has: rows(1, 2, 4), says: { lost: [], after: 1, holes: [3] } },
])("with a copy that covers a part, when $when", ({ coveredAtMs, has, says }) => {
  expect(judge(heard(1, 2, 3, 4), has, coveredAtMs)).toMatchObject(says);
});

test("the longest pause is between two acknowledgements", () => {
  const told = [5, 10, 400, 410].map((atMs, index) => ({ id: index + 1, atMs }));
  expect(judge(told, rows(1, 2, 3, 4)).longestPauseMs).toBe(390);
});
