import fc from "fast-check";
import { expect, test } from "vitest";
import { createBothEnds } from "./both-ends.ts";

const both = (lines: readonly string[], maxBytes: number): string => {
  const ends = createBothEnds(maxBytes);
  return [...lines.map((line) => ends.push(`${line}\n`)), ends.end()].join("");
};
const numbered = (count: number, text = ""): string[] => Array.from({ length: count }, (_, at) => `${at}${text}`);

test.each<{ what: string; lines: string[]; maxBytes: number; kept: string }>([
  { what: "nothing", lines: [], maxBytes: 100, kept: "" },
  { what: "what fits the first half", lines: ["one", "two"], maxBytes: 200, kept: "one\ntwo\n" },
  {
    what: "what fits together",
    lines: numbered(50),
    maxBytes: 300,
    kept: numbered(50)
      .map((line) => `${line}\n`)
      .join(""),
  },
  {
    what: "more than that",
    lines: numbered(90),
    maxBytes: 140,
    kept: `${numbered(26).slice(0, 26).join("\n")}\n[63 lines left out, 189 bytes]\n89\n`,
  },
])("of $what both ends are kept", ({ lines, maxBytes, kept }) => {
  expect(both(lines, maxBytes)).toBe(kept);
});

test("the beginning is passed on at once, and what comes later is not", () => {
  const ends = createBothEnds(200);
  expect(ends.push(`${"a".repeat(90)}\n`)).toHaveLength(91);
  expect(ends.push(`${"b".repeat(20)}\n`)).toBe("");
  // A short line that would fit does not come before a long one that did not.
  expect(ends.push("c\n")).toBe("");
  expect(ends.end()).toBe(`${"b".repeat(20)}\nc\n`);
});

test("whatever is written, the bound holds, characters stay whole and the numbers are right", () => {
  const line = fc.array(fc.constantFrom("a", "é", "€", "🚲", " "), { maxLength: 40 }).map((parts) => parts.join(""));
  fc.assert(
    fc.property(fc.array(line, { maxLength: 200 }), fc.integer({ min: 300, max: 3_000 }), (lines, maxBytes) => {
      const whole = lines.map((each) => `${each}\n`).join("");
      const kept = both(lines, maxBytes);
      expect(Buffer.byteLength(kept)).toBeLessThanOrEqual(maxBytes);
      expect(kept).not.toContain("\uFFFD");
      const note = /^\[(\d+) lines? left out, (\d+) bytes?\]$/m.exec(kept);
      if (note === null) {
        expect(kept).toBe(whole);
        return;
      }
      const [head = "", tail = ""] = kept.split(`${note[0]}\n`);
      expect(whole.startsWith(head)).toBe(true);
      expect(whole.endsWith(tail)).toBe(true);
      const gone = whole.slice(head.length, whole.length - tail.length);
      expect([gone.split("\n").length - 1, Buffer.byteLength(gone)]).toEqual([Number(note[1]), Number(note[2])]);
      // Neither end is given away: only the rest of a line is missing from the half that it may have.
      expect(Buffer.byteLength(head)).toBeGreaterThan(maxBytes / 2 - 162);
      expect(Buffer.byteLength(tail)).toBeGreaterThan(maxBytes / 2 - 64 - 162);
    }),
    { numRuns: 500 },
  );
});
