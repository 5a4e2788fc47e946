import { expect, test } from "vitest";
import { fromLines, type Operation, toLines, violations } from "./history.ts";

const deploy = (
  version: number,
  startMs: number,
  endMs: number,
  outcome: "acknowledged" | "refused" | "unknown" = "acknowledged",
): Operation => ({ op: "deploy", ...{ version, outcome, startMs, endMs } });
const read = (version: number, startMs: number, endMs = startMs + 1): Operation => ({
  op: "read",
  ...{ version, startMs, endMs },
});
const hold = (machine: string, startMs: number, endMs: number | null, placement = "p"): Operation => ({
  op: "hold",
  ...{ placement, machine, startMs, endMs },
});

const fine: { what: string; history: Operation[] }[] = [
  { what: "nothing", history: [] },
  {
    what: "either version while the later one is deployed",
    history: [deploy(1, 0, 5), deploy(2, 10, 30), read(2, 15), read(1, 20), read(2, 31)],
  },
  {
    what: "the former one, by a read that began before the acknowledgement",
    history: [deploy(1, 0, 5), deploy(2, 10, 20), read(1, 19, 25)],
  },
  {
    what: "a deploy that nobody acknowledged, seen or not",
    history: [deploy(1, 0, 5), deploy(2, 10, 40, "unknown"), read(2, 50), read(1, 60)],
  },
  {
    what: "a refused one, until the one before is back",
    history: [deploy(1, 0, 5), deploy(2, 10, 20, "refused"), read(2, 19), read(2, 22), read(1, 30), read(1, 40)],
  },
  {
    what: "a refused one beside the one before, by reads at the same time",
    history: [deploy(1, 0, 5), deploy(2, 10, 20, "refused"), read(1, 21, 30), read(2, 25, 26)],
  },
  { what: "a hold that begins when the one before ends", history: [hold("a", 0, 10), hold("b", 10, null)] },
  { what: "different placements at the same time", history: [hold("a", 0, null, "p"), hold("b", 0, null, "q")] },
];
test.each(fine)("nothing is wrong with $what", ({ history }) => {
  expect(violations(history)).toEqual([]);
});

const planted: { what: string; history: Operation[]; found: string }[] = [
  {
    what: "an older version after the acknowledgement",
    history: [deploy(1, 0, 5), deploy(2, 10, 20), read(1, 21)],
    found: "at 21 version 1 was read, after 2 was acknowledged",
  },
  {
    what: "an older one once, after the newer one was seen for long",
    history: [deploy(1, 0, 5), deploy(2, 10, 20), read(2, 30), read(1, 90), read(2, 99)],
    found: "at 90 version 1 was read, after 2 was acknowledged",
  },
  {
    what: "the one before last",
    history: [deploy(1, 0, 5), deploy(2, 10, 20), deploy(3, 30, 60, "unknown"), read(1, 40)],
    found: "at 40 version 1 was read, after 2 was acknowledged",
  },
  {
    what: "the one before a version, which was refused after it",
    history: [deploy(1, 0, 5), deploy(2, 10, 20), deploy(3, 30, 35, "refused"), read(1, 40)],
    found: "at 40 version 1 was read, after 2 was acknowledged",
  },
  {
    what: "a refused version that comes back",
    history: [deploy(1, 0, 5), deploy(2, 10, 20, "refused"), read(1, 30), read(2, 40)],
    found: "at 40 version 2 was read, which was refused and had gone",
  },
  {
    what: "a version before it was deployed",
    history: [deploy(1, 0, 5), read(2, 6, 7), deploy(2, 10, 20)],
    found: "at 7 version 2 was read, which nobody had deployed",
  },
  {
    what: "a version of nobody's",
    history: [read(9, 1, 2)],
    found: "at 2 version 9 was read, which nobody had deployed",
  },
  { what: "two machines at once", history: [hold("a", 0, 10), hold("b", 9, 20)], found: "at 9 b held p, and so did a" },
  {
    what: "a machine that never let go",
    history: [hold("a", 0, null), hold("b", 50, 60)],
    found: "at 50 b held p, and so did a",
  },
  {
    what: "one that ran twice on one machine",
    history: [hold("a", 0, 10), hold("a", 5, 6)],
    found: "at 5 a held p, and so did a",
  },
  {
    what: "a short hold within a long one, with others between",
    history: [hold("a", 0, 100), hold("b", 100, 200), hold("c", 150, 160)],
    found: "at 150 c held p, and so did b",
  },
];
test.each(planted)("$what is found", ({ history, found }) => {
  expect(violations(history)).toEqual([found]);
  // The order of lines says nothing.
  expect(violations(history.toReversed())).toEqual([found]);
  expect(violations(fromLines(toLines(history)))).toEqual([found]);
});

test("a line that is no operation is told", () => {
  expect(() => fromLines('{"op":"read"}\n')).toThrow();
});
