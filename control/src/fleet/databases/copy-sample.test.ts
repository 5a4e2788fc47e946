import { create } from "@bufbuild/protobuf";
import { type CopySample, CopySampleSchema, CopySample_State as State } from "@svc/proto/node";
import { describe, expect, test } from "vitest";
import { type CopyProgress, nextProgress, progressOf } from "./copy-sample.ts";

const now = Date.parse("2030-01-01T00:10:00Z");
const at = (minute: number) => new Date(Date.parse("2030-01-01T00:00:00Z") + minute * 60_000).toISOString();
const sample = (overrides: Partial<CopySample> = {}): CopySample =>
  create(CopySampleSchema, {
    ...{ copyId: "c", at: at(10), state: State.FOLLOWING, coveredAt: at(9), position: "0/1", bytes: 5n },
    bases: [{ number: 1, at: at(1), bytes: 4n }],
    ...(overrides as object),
  });

test("what a node tells of a copy is taken as it is", () => {
  expect(progressOf(sample(), now)).toEqual({
    ...{ toldAtMs: Date.parse(at(10)), state: "following", problem: null, coveredAtMs: Date.parse(at(9)) },
    ...{ position: "0/1", bytes: 5, bases: [{ number: 1, at: at(1), bytes: 4 }] },
  });
});

test("a base after which changes are missing says until when it goes", () => {
  const bases = [
    { number: 1, at: at(1), bytes: 4n, until: at(3) },
    { number: 2, at: at(5), bytes: 4n },
  ];
  expect(progressOf(sample({ bases } as never), now)?.bases).toEqual([
    { number: 1, at: at(1), bytes: 4, until: at(3) },
    { number: 2, at: at(5), bytes: 4 },
  ]);
});

test.each<{ what: string; has: object }>([
  { what: "an unknown state", has: { state: State.UNSPECIFIED } },
  { what: "no time", has: { at: "" } },
  { what: "a time that is to come", has: { at: at(12) } },
  { what: "a time long ago", has: { at: at(-60) } },
  { what: "what is not yet", has: { coveredAt: at(12) } },
  { what: "a time that is none", has: { coveredAt: "soon" } },
  { what: "bases and nothing in them", has: { coveredAt: "" } },
  {
    what: "more bases than there can be",
    has: { bases: Array.from({ length: 21 }, (_, number) => ({ number, at: at(1) })) },
  },
  { what: "bases of falling numbers", has: { bases: [2, 1].map((number) => ({ number, at: at(1), bytes: 1n })) } },
  {
    what: "bases of falling times",
    has: { bases: [1, 2].map((number) => ({ number, at: at(3 - number), bytes: 1n })) },
  },
  { what: "a base that goes until no time", has: { bases: [{ number: 1, at: at(1), bytes: 4n, until: "soon" }] } },
  { what: "more bytes than there are", has: { bytes: 2n ** 60n } },
  { what: "a position without an end", has: { position: "0".repeat(1_001) } },
])("a node that tells of $what is not believed", ({ has }) => {
  expect(progressOf(sample(has), now)).toBeNull();
});

test("a log without a whole copy covers nothing", () => {
  expect(progressOf(sample({ bases: [], state: State.BASING }), now)?.coveredAtMs).toBeNull();
});

test("one that is broken says why, in bounds", () => {
  expect(progressOf(sample({ state: State.BROKEN, problem: "" }), now)?.problem).toMatch(/does not say/);
  expect(
    progressOf(sample({ state: State.BROKEN, problem: "x".repeat(9_000) }), now)?.problem?.length,
  ).toBeLessThanOrEqual(500);
});

describe("what a copy covers", () => {
  const base = (number: number) => ({ number, at: at(number), bytes: 1 });
  const kept: CopyProgress = {
    ...{ toldAtMs: 100, state: "following", problem: null, coveredAtMs: 50, position: "p", bytes: 1, bases: [base(1)] },
  };
  const told = (change: Partial<CopyProgress>) => nextProgress(kept, { ...kept, toldAtMs: 101, ...change });

  test.each<{ when: string; tells: Partial<CopyProgress>; covers: number | null }>([
    { when: "more is in it", tells: { coveredAtMs: 60 }, covers: 60 },
    { when: "it starts again and does not know yet", tells: { coveredAtMs: null, state: "basing" }, covers: 50 },
    { when: "it says less than before", tells: { coveredAtMs: 40 }, covers: 50 },
    { when: "it breaks", tells: { state: "broken", coveredAtMs: null }, covers: 50 },
    {
      when: "a base is added and the oldest goes later",
      tells: { bases: [base(1), base(2)], coveredAtMs: 40 },
      covers: 50,
    },
    {
      when: "all of it was lost, and it begins anew",
      tells: { bases: [], coveredAtMs: null, state: "basing" },
      covers: null,
    },
    { when: "another base alone is there", tells: { bases: [base(2)], coveredAtMs: 40 }, covers: 40 },
    {
      when: "a base of that number is another one",
      tells: { bases: [{ ...base(1), at: at(2) }], coveredAtMs: 40 },
      covers: 40,
    },
  ])("when $when", ({ tells, covers }) => {
    expect(told(tells)?.coveredAtMs).toBe(covers);
  });

  test.each([100, 99])("is not changed by what was said before", (toldAtMs) => {
    expect(told({ toldAtMs, coveredAtMs: 60 })).toBeNull();
  });
});
