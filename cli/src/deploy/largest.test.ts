import fc from "fast-check";
import { expect, test } from "vitest";
import { largestFiles, largestParts } from "./largest.ts";
import type { Entry } from "./tree.ts";

const entries = (sizes: Record<string, number>): Entry[] =>
  Object.entries(sizes).map(([path, sizeBytes]) => ({ kind: "file", path, file: path, executable: false, sizeBytes }));

test("directories are followed down to where the bytes are", () => {
  const sizes = {
    "public/video/a.mp4": 900,
    "public/video/b.mp4": 800,
    "public/x.css": 1,
    "src/a.ts": 20,
    "b.bin": 300,
  };
  expect(largestParts(entries(sizes), 2)).toEqual([
    { path: "public/video/", bytes: 1700 },
    { path: "b.bin", bytes: 300 },
  ]);
  expect(largestFiles(entries(sizes), 2)).toEqual([
    { path: "public/video/a.mp4", bytes: 900 },
    { path: "public/video/b.mp4", bytes: 800 },
  ]);
});

test("parts never overlap, and are never more than the whole", () => {
  const path = fc.array(fc.constantFrom("a", "b", "c"), { minLength: 1, maxLength: 4 }).map((parts) => parts.join("/"));
  fc.assert(
    fc.property(fc.dictionary(path, fc.nat(1000)), (sizes) => {
      const parts = largestParts(entries(sizes), 10);
      const whole = Object.values(sizes).reduce((sum, size) => sum + size, 0);
      expect(parts.reduce((sum, { bytes }) => sum + bytes, 0)).toBeLessThanOrEqual(whole);
      for (const one of parts)
        for (const other of parts) expect(one !== other && other.path.startsWith(one.path)).toBe(false);
    }),
  );
});
