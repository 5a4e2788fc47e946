import fc from "fast-check";
import { expect, test } from "vitest";
import { cleanDeep, displayWidth, formatAge, formatBytes, formatDuration, inertForActions, table } from "./format.ts";

test.each([
  [0, "0 B"],
  [999, "999 B"],
  [1000, "1.0 KiB"],
  [1536, "1.5 KiB"],
  [102_400, "100 KiB"],
  [1_023_999, "1.0 MiB"],
  [5 * 1024 ** 3, "5.0 GiB"],
  [1024 ** 5 * 3, "3072 TiB"],
])("%i bytes read %s", (size, text) => {
  expect(formatBytes(size)).toBe(text);
});

test.each([
  [0, "0 ms"],
  [999, "999 ms"],
  [1000, "1 s"],
  [59_400, "59 s"],
  [60_000, "1 min"],
  [185_000, "3 min 5 s"],
  [7_800_000, "2 h 10 min"],
  [3_605_000, "1 h"],
  [270_000_000, "3 d 3 h"],
])("%i ms read %s", (durationMs, text) => {
  expect(formatDuration(durationMs)).toBe(text);
});

test.each([
  ["2030-01-02T00:00:00Z", "just now"],
  ["2030-01-02T00:00:05Z", "just now"],
  ["2030-01-01T23:59:30Z", "30 s ago"],
  ["2030-01-01T23:18:00Z", "42 min ago"],
  ["2030-01-01T00:00:00Z", "24 h ago"],
  ["2029-12-30T00:00:00Z", "3 d ago"],
  [null, "-"],
  ["nonsense", "-"],
])("%s was %s", (at, text) => {
  expect(formatAge(at, new Date("2030-01-02T00:00:00Z"))).toBe(text);
});

test("columns line up, whatever is in the cells", () => {
  expect(
    table(
      [
        ["A", "N"],
        ["日本", "5"],
        ["\u001b[32mok\u001b[39m", "100"],
      ],
      [1],
    ),
  ).toBe(["A       N", "日本    5", "\u001b[32mok\u001b[39m    100"].join("\n"));
  expect(displayWidth("e\u0301👩‍👩‍👧")).toBe(3);
});

test("a line break in a cell is shown, and begins no line", () => {
  const rows = [
    ["NAME", "SIZE"],
    ["a\nb\r\tc\u2028d", "1"],
    ["e", "2"],
  ];
  expect(table(rows).split("\n")).toEqual(["NAME         SIZE", String.raw`a\nb\r\tc d  1`, "e            2"]);
});

test("every line of a table has its columns at the same place", () => {
  const cell = fc.string({ unit: "grapheme-ascii", maxLength: 12 }).map((text) => text.trim() || "x");
  fc.assert(
    fc.property(fc.array(fc.tuple(cell, cell, cell), { minLength: 1, maxLength: 8 }), (rows) => {
      const width = Math.max(...rows.map(([first]) => first.length));
      for (const [at, line] of table(rows).split("\n").entries()) {
        const [first, second] = rows[at] ?? ["", ""];
        expect(line.startsWith(`${first.padEnd(width)}  ${second}`)).toBe(true);
      }
    }),
  );
});

test("nothing in a payload can drive the terminal", () => {
  const hostile = "a\u001b]52;c;ZXZpbA==\u0007\u009b31m\r\n\tb\u202e";
  expect(cleanDeep({ list: [{ text: hostile, n: 1, no: null }] })).toEqual({
    list: [{ text: "a]52;c;ZXZpbA==31m\n\tb", n: 1, no: null }],
  });
});

test.each([
  ["::set-output name=x::y", "> ::set-output name=x::y"],
  ["   ::error::x", "   > ::error::x"],
  ["say ##[add-mask]x", "say # #[add-mask]x"],
  ["a :: b", "a :: b"],
  ["a\n\n ::b\n::c", "a\n\n > ::b\n> ::c"],
])("%j is inert in a pipeline as %j", (line, text) => {
  expect(inertForActions(line)).toBe(text);
});
