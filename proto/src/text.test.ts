import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { clip, isOneLine, isPlainText, stripControl, utf8Length } from "./text.ts";

test.each([
  { text: "Zürich 🚲", oneLine: true, plain: true },
  { text: "two\nlines\tand a tab", oneLine: false, plain: true },
  { text: "\u001b[2J", oneLine: false, plain: false },
  { text: "nul\0", oneLine: false, plain: false },
  { text: "reversed \u202e", oneLine: false, plain: false },
  { text: "half \ud83d", oneLine: false, plain: false },
  { text: "\u0085", oneLine: false, plain: false },
])("$text", ({ text, oneLine, plain }) => {
  expect(isOneLine(text)).toBe(oneLine);
  expect(isPlainText(text)).toBe(plain);
});

test("what was stripped is plain, and plain text is left alone", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (text) => {
      const stripped = stripControl(text);
      expect(isPlainText(stripped)).toBe(true);
      expect(stripControl(stripped)).toBe(stripped);
    }),
  );
});

describe("clip", () => {
  test("keeps what fits and never cuts a character", () => {
    expect(clip("abc", 3)).toBe("abc");
    expect(clip("abcdef", 5)).toBe("ab…");
    expect(clip("ääää", 7)).toBe("ää…");
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), fc.integer({ min: 3, max: 40 }), (text, max) => {
        const clipped = clip(text, max);
        expect(utf8Length(clipped)).toBeLessThanOrEqual(max);
        expect(clipped.isWellFormed()).toBe(true);
        if (clipped !== text) expect(`${text.slice(0, clipped.length - 1)}…`).toBe(clipped);
      }),
    );
  });
});
