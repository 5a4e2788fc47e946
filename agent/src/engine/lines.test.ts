import fc from "fast-check";
import { expect, test } from "vitest";
import { createLineSplitter } from "./lines.ts";

function split(chunks: Buffer[], limit?: number): string[] {
  const lines: string[] = [];
  const take = createLineSplitter((line) => lines.push(line), limit);
  for (const chunk of chunks) take(chunk);
  take(null);
  return lines;
}

test("lines come out whole, wherever the chunks were cut", () => {
  fc.assert(
    fc.property(
      fc.array(fc.string({ unit: "grapheme" }).map((line) => line.replaceAll("\n", ""))),
      fc.integer({ min: 1, max: 7 }),
      (lines, size) => {
        const bytes = Buffer.from(lines.map((line) => `${line}\n`).join(""));
        const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) =>
          bytes.subarray(index * size, (index + 1) * size),
        );
        expect(split(chunks)).toEqual(lines);
      },
    ),
  );
});

test("a line beyond the limit is cut, not kept growing", () => {
  expect(split([Buffer.from("abcdefgh\nxy")], 3)).toEqual(["abc", "def", "gh", "xy"]);
});
