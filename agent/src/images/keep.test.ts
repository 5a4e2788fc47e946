import { expect, test } from "vitest";
import { uselessImages } from "./keep.ts";

const dayMs = 24 * 60 * 60 * 1000;
const nowMs = 100 * dayMs;
const used = (reference: string, daysAgo: number, owner = "p1") => ({
  reference,
  owner,
  usedAtMs: nowMs - daysAgo * dayMs,
});

test.each([
  { when: "it is among the newest of its project", known: [used("a", 9), used("b", 8)], inUse: [], removes: [] },
  { when: "newer ones have come", known: [used("a", 9), used("b", 8), used("c", 7)], inUse: [], removes: ["a"] },
  { when: "a placement needs it", known: [used("a", 9), used("b", 8), used("c", 7)], inUse: ["a"], removes: [] },
  { when: "it was used lately", known: [used("a", 0.5), used("b", 0.4), used("c", 0.3)], inUse: [], removes: [] },
  {
    when: "another project keeps it",
    known: [used("a", 9), used("b", 8), used("c", 7), used("a", 9, "p2")],
    inUse: [],
    removes: [],
  },
])("when $when", ({ known, inUse, removes }) => {
  expect(uselessImages(known, new Set(inUse), 2, nowMs)).toEqual(removes);
});
