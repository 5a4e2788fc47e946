import fc from "fast-check";
import { expect, test } from "vitest";
import { wholeCharacters } from "./read.ts";

test.each([
  { bytes: [], whole: 0 },
  { bytes: [0x61], whole: 1 },
  { bytes: [0x61, 0xc3], whole: 1 },
  { bytes: [0xc3, 0xa9], whole: 2 },
  { bytes: [0xe2, 0x82], whole: 0 },
  { bytes: [0x61, 0xf0, 0x9f, 0x98], whole: 1 },
  { bytes: [0xf0, 0x9f, 0x98, 0x80], whole: 4 },
  { bytes: [0x80, 0x80, 0x80, 0x80], whole: 4 },
])("$bytes holds $whole bytes of whole characters", ({ bytes, whole }) => {
  expect(wholeCharacters(Uint8Array.from(bytes))).toBe(whole);
});

test("text that is cut anywhere and read in turns is the text", () => {
  const text = fc.string({ unit: "grapheme" });
  fc.assert(
    fc.property(text, fc.integer({ min: 4, max: 9 }), (whole, turnBytes) => {
      const bytes = new TextEncoder().encode(whole);
      let read = "";
      for (let at = 0; at < bytes.length; ) {
        const turn = bytes.subarray(at, at + turnBytes);
        const length = at + turnBytes >= bytes.length ? turn.length : wholeCharacters(turn);
        expect(length).toBeGreaterThan(0);
        read += new TextDecoder("utf-8", { ignoreBOM: true }).decode(turn.subarray(0, length));
        at += length;
      }
      expect(read).toBe(whole);
    }),
  );
});
