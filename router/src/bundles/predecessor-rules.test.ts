import { expect, test } from "vitest";
import { type Occupant, type Predecessor, predecessorsAfter } from "./predecessor-rules.ts";

const nowMs = Date.UTC(2030, 0, 2);
const tomorrowMs = Date.UTC(2030, 0, 3);
const ours = (bundle: string | null): Occupant => ({ owner: "p1/production", bundle });
const theirs: Occupant = { owner: "p2/production", bundle: "x" };
const kept = (bundle: string, untilMs = nowMs + 1): Predecessor => ({ bundle, owner: "p1/production", untilMs });

test.each([
  { when: "another bundle follows", known: [], left: ours("a"), next: ours("b"), gives: [kept("a", tomorrowMs)] },
  { when: "the same goes on", known: [kept("a")], left: ours("b"), next: ours("b"), gives: [kept("a")] },
  { when: "what was left is not known", known: [kept("a")], left: null, next: ours("b"), gives: [kept("a")] },
  {
    when: "a third follows",
    ...{ known: [kept("a")], left: ours("b"), next: ours("c"), gives: [kept("b", tomorrowMs), kept("a")] },
  },
  {
    when: "one comes back",
    ...{ known: [kept("a")], left: ours("b"), next: ours("a"), gives: [kept("b", tomorrowMs)] },
  },
  {
    when: "one is left again",
    ...{ known: [kept("b"), kept("a")], left: ours("a"), next: ours("c"), gives: [kept("a", tomorrowMs), kept("b")] },
  },
  {
    when: "many follow one another",
    known: ["c", "b", "a"].map((each) => kept(each)),
    ...{ left: ours("d"), next: ours("e"), gives: [kept("d", tomorrowMs), kept("c"), kept("b")] },
  },
  { when: "an app follows", known: [kept("a")], left: ours("b"), next: ours(null), gives: [kept("a")] },
  { when: "somebody else gets the name", known: [kept("a")], left: ours("b"), next: theirs, gives: [] },
  { when: "nothing is served any more", known: [kept("a")], left: ours("b"), next: null, gives: [] },
])("when $when", ({ known, left, next, gives }) => {
  expect(predecessorsAfter(known, left, next, nowMs)).toEqual(gives);
});
