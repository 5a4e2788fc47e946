import { expect, test } from "vitest";
import { nextTurns, type Turn } from "./turns.ts";

const of = (ownerId: string | null, ...domains: string[]): Turn[] =>
  domains.map((registeredDomain) => ({ registeredDomain, ownerId }));
const none = new Map<string, number>();

test.each([
  { when: "nobody waits", turns: [], placed: none, room: 4, next: [] },
  { when: "there is no room", turns: of("u1", "a.test"), placed: none, room: 0, next: [] },
  { when: "more began than there is room for", turns: of("u1", "a.test"), placed: none, room: -1, next: [] },
  {
    when: "one has many and another comes last",
    turns: [...of("u1", "a.test", "b.test", "c.test"), ...of("u2", "z.test")],
    placed: none,
    room: 3,
    next: ["a.test", "z.test", "b.test"],
  },
  {
    when: "one had many lately",
    turns: [...of("u1", "a.test", "b.test"), ...of("u2", "y.test", "z.test")],
    placed: new Map([["u1", 5]]),
    room: 3,
    next: ["y.test", "z.test", "a.test"],
  },
  {
    when: "the content domain waits, too",
    turns: [...of("u1", "a.test", "b.test"), ...of(null, "content.test")],
    placed: new Map([["u1", 1]]),
    room: 2,
    next: ["content.test", "a.test"],
  },
  {
    when: "two own names below one domain",
    turns: [...of("u1", "shared.test"), ...of("u2", "shared.test", "z.test")],
    placed: none,
    room: 4,
    next: ["shared.test", "z.test"],
  },
])("when $when", ({ turns, placed, room, next }) => {
  expect(nextTurns(turns, placed, room)).toEqual(next);
});

test("somebody with a thousand domains delays another one by a turn", () => {
  const many = Array.from({ length: 1_000 }, (_, index) => `shop-${index}.test`);
  expect(nextTurns([...of("u1", ...many), ...of("u2", "small.test")], none, 8)).toContain("small.test");
});
