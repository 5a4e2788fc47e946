import { describe, expect, test } from "vitest";
import { graceMs } from "../node-links.ts";
import { type StormNode, stormNode, stormOf } from "./rules.ts";

const now = new Date("2026-01-01T12:00:00Z");
const ago = (ms: number) => new Date(now.getTime() - ms);
/** Nodes of which the first ones were lost so many milliseconds ago. */
const nodes = (count: number, ...lost: number[]): StormNode[] =>
  Array.from({ length: count }, (_, index) => {
    const lostMs = lost[index];
    return lostMs === undefined
      ? { id: `n${index}`, heardSince: ago(3_600_000) }
      : { id: `n${index}`, lostAt: ago(lostMs) };
  });
/** The same; those at the end came back so many milliseconds ago. */
const returning = (all: StormNode[], ...back: number[]): StormNode[] => [
  ...all.slice(0, all.length - back.length),
  ...back.map((ms, index) => ({ id: `back${index}`, heardSince: ago(ms) })),
];
const settled = ago(3_600_000);

describe("replicas stay where they are", () => {
  test.each([
    { when: "nobody has led for long", leadingSince: ago(graceMs - 1), nodes: nodes(10, 1_000) },
    { when: "half of the nodes went at once", leadingSince: settled, nodes: nodes(10, 1, 2, 3, 4, 5) },
    { when: "they went within a minute", leadingSince: settled, nodes: nodes(8, 60_000, 30_000, 0) },
    { when: "a third of the nodes went at once", leadingSince: settled, nodes: nodes(9, 1, 2, 3) },
    { when: "others were lost long before", leadingSince: settled, nodes: nodes(10, 900_000, 600_000, 3, 2, 1) },
    { when: "they went long ago, together", leadingSince: settled, nodes: nodes(6, 900_000, 901_000, 902_000) },
    {
      when: "few are away, and others come back one after the other",
      leadingSince: settled,
      nodes: returning(nodes(100, 60_000, 60_000, 60_000), 14_000, 7_000, 1_000),
    },
  ])("when $when", (facts) => {
    expect(stormOf({ now, ...facts })).not.toBeNull();
  });

  test("until enough of them are back", () => {
    expect(stormOf({ now, leadingSince: settled, nodes: nodes(6, 900_000, 901_000) })).toBeNull();
  });
});

describe("replicas move", () => {
  test.each([
    { when: "one of two nodes went", nodes: nodes(2, 1_000) },
    { when: "two of three nodes went", nodes: nodes(3, 1_000, 1_000) },
    { when: "less than a third of the nodes went", nodes: nodes(10, 1, 2, 3) },
    { when: "one after the other went, minutes apart", nodes: nodes(8, 600_000, 400_000, 200_000, 1_000) },
    {
      when: "few are away, and nobody has come back lately",
      nodes: returning(nodes(100, 60_000, 60_000, 60_000), 16_000, 15_000, 1_000),
    },
    { when: "one went while others come back", nodes: returning(nodes(100, 60_000), 3_000, 2_000, 1_000) },
  ])("when $when", (facts) => {
    expect(stormOf({ now, leadingSince: settled, ...facts })).toBeNull();
  });
});

describe("a node that is away", () => {
  test.each([
    { when: "nobody noted its loss", notedLostAt: null, lostAt: ago(5_000) },
    { when: "a leader noted it before", notedLostAt: ago(900_000), lostAt: ago(900_000) },
    { when: "the loss was noted later than it was seen", notedLostAt: ago(1_000), lostAt: ago(5_000) },
  ])("was lost by what is known when $when", ({ notedLostAt, lostAt }) => {
    expect(stormNode({ id: "n", link: "unreachable", since: ago(5_000), notedLostAt })).toEqual({ id: "n", lostAt });
  });

  test("counts as long as nothing is heard of it", () => {
    const links = ["connected", "reconciling", "suspect", "unknown", "unreachable"] as const;
    const facts = { id: "n", since: ago(5_000), notedLostAt: null };
    const lost = links.filter((link) => "lostAt" in stormNode({ ...facts, link }));
    expect(lost).toEqual(["suspect", "unknown", "unreachable"]);
  });
});

test("nodes that went while nobody looked are lost together", () => {
  const all = ["n0", "n1", "n2"].map((id) =>
    stormNode({ id, link: "unreachable", since: ago(900_000), notedLostAt: null }),
  );
  expect(stormOf({ now, leadingSince: settled, nodes: all })).not.toBeNull();
});
