import { describe, expect, test } from "vitest";
import { type Answer, agreedBy, firstKnown, foundOf, unknown } from "./answer.ts";

const absent: Answer<string> = { kind: "absent" };
const found = (...values: string[]): Answer<string> => foundOf(values);
const lost = unknown("10.0.0.1 answers with ETIMEOUT");

describe("what servers agree on", () => {
  test.each([
    { when: "both say the same", answers: [found("a"), found("a")], is: found("a") },
    { when: "both say the same in another order", answers: [found("a", "b"), found("b", "a")], is: found("a", "b") },
    { when: "both say that there is nothing", answers: [absent, absent], is: absent },
    { when: "there is one server", answers: [found("a")], is: found("a") },
    { when: "one of two is silent", answers: [found("a"), lost], is: lost },
    { when: "both are silent", answers: [lost, lost], is: lost },
    { when: "one of three is silent", answers: [found("a"), lost, found("a")], is: found("a") },
    { when: "one of three says something else", answers: [found("a"), absent, found("a")], is: found("a") },
    {
      when: "they say different things",
      answers: [found("a"), absent],
      is: unknown("the DNS servers contradict one another"),
    },
    {
      when: "two camps are as large",
      answers: [found("a"), absent, found("a"), absent],
      is: unknown("the DNS servers contradict one another"),
    },
    { when: "there is nobody to ask", answers: [], is: unknown("") },
  ])("when $when", ({ answers, is }) => {
    expect(agreedBy<string>(answers)).toEqual(is);
  });
});

test("the first server that knows is believed, and nobody who does not", () => {
  expect(firstKnown<string>([lost, absent, found("a")])).toEqual(absent);
  expect(firstKnown<string>([lost, unknown("another")])).toEqual(unknown("10.0.0.1 answers with ETIMEOUT; another"));
});
