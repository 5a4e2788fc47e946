import fc from "fast-check";
import { expect, test } from "vitest";
import { newLines, splitLines } from "./lines.ts";

test.each([
  ["", []],
  ["a", ["a"]],
  ["a\n", ["a"]],
  ["a\n\n", ["a", ""]],
  ["\n", [""]],
])("%j has the lines %j", (text, lines) => {
  expect(splitLines(text)).toEqual(lines);
});

test.each([
  { when: "nothing came", before: ["a", "b"], after: ["a", "b"], lines: [], gap: false },
  { when: "one line came", before: ["a", "b"], after: ["b", "c"], lines: ["c"], gap: false },
  { when: "the log grew", before: ["a"], after: ["a", "b"], lines: ["b"], gap: false },
  { when: "too much came", before: ["a", "b"], after: ["x", "y"], lines: ["x", "y"], gap: true },
  { when: "it is the first reading", before: [], after: ["a"], lines: ["a"], gap: false },
  { when: "the app is gone", before: ["a"], after: [], lines: [], gap: false },
])("when $when", ({ before, after, lines, gap }) => {
  expect(newLines(before, after)).toEqual({ lines, gap });
});

test("joined readings of a log without repeated lines give the log, whatever the pace", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 5 }), { maxLength: 30 }), (steps) => {
      const window = 5;
      const log: string[] = [];
      let previous: string[] = [];
      const printed: string[] = [];
      for (const step of steps) {
        for (let at = 0; at < step; at++) log.push(`line ${log.length}`);
        const current = log.slice(-window);
        printed.push(...newLines(previous, current).lines);
        previous = current;
      }
      expect(printed).toEqual(log);
    }),
  );
});
