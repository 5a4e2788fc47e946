import { expect, test } from "vitest";
import { crashLines, shownStatus } from "./crash-lines.ts";
import { displayWidth } from "./format.ts";
import { plain } from "./paint.ts";

const now = new Date("2030-01-01T12:00:00Z");
const screen = { paint: plain, now, columns: null };
const reason = "The app was killed because it used more than its 512 MB of memory and is started again.";
const crashing = {
  ...{ since: "2030-01-01T11:58:47Z", lastAt: "2030-01-01T11:59:56Z", count: 4, reason },
  nextStartAt: "2030-01-01T12:00:04Z",
};

test.each([
  { when: "all is well", row: { status: "running", crashing: null }, shown: "running", lines: [] },
  { when: "the platform does not tell", row: { status: "running" }, shown: "running", lines: [] },
  { when: "there is nothing", row: { status: null }, shown: null, lines: [] },
  {
    when: "it waits for its next start",
    row: { status: "running", crashing },
    shown: "crashing",
    lines: [`  ended 4 times in 1 min 13 s, last 4 s ago, it is started again in 4 s: ${reason}`],
  },
  {
    when: "it is up between two ends",
    row: { status: "running", crashing: { ...crashing, nextStartAt: crashing.lastAt } },
    shown: "crashing",
    lines: [`  ended 4 times in 1 min 13 s, last 4 s ago: ${reason}`],
  },
  {
    when: "it ended once and is not back",
    row: { status: "running", crashing: { ...crashing, count: 1, since: crashing.lastAt } },
    shown: "crashing",
    lines: [`  ended 4 s ago, it is started again in 4 s: ${reason}`],
  },
  {
    when: "it is given up",
    row: { status: "running", crashing: { ...crashing, count: 10, nextStartAt: null } },
    shown: "crashing",
    lines: [`  ended 10 times in 1 min 13 s, last 4 s ago, it is not started any more: ${reason}`],
  },
])("when $when", ({ row, shown, lines }) => {
  expect(shownStatus(row)).toBe(shown);
  expect(crashLines(row, screen)).toEqual(lines);
});

test("on a narrow terminal no line is wider than it, and nothing is lost", () => {
  const lines = crashLines({ crashing }, { ...screen, columns: 40 });
  expect(Math.max(...lines.map(displayWidth))).toBeLessThanOrEqual(40);
  expect(lines.map((line) => line.trim()).join(" ")).toContain(reason);
});
