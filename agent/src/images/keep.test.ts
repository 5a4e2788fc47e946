import { describe, expect, test } from "vitest";
import { type KnownImage, spareImages, uselessImages } from "./keep.ts";

const dayMs = 24 * 60 * 60 * 1000;
const nowMs = 100 * dayMs;
const image = (name: string) => `registry.test/${name}@sha256:${name}`;
const used = (name: string, daysAgo: number, owner = "p1"): KnownImage => ({
  reference: image(name),
  owner,
  usedAtMs: nowMs - daysAgo * dayMs,
});

interface Situation {
  when: string;
  known: KnownImage[];
  inUse?: string[];
  gone?: string[];
  removes: string[];
}

describe("what need not stay", () => {
  test.each<Situation>([
    { when: "it is among the newest of its project", known: [used("a", 9), used("b", 8)], removes: [] },
    { when: "newer ones have come", known: [used("a", 9), used("b", 8), used("c", 7)], removes: ["a"] },
    { when: "a placement needs it", known: [used("a", 9), used("b", 8), used("c", 7)], inUse: ["a"], removes: [] },
    { when: "it was used lately", known: [used("a", 0.5), used("b", 0.4), used("c", 0.3)], removes: [] },
    {
      when: "another project keeps it",
      known: [used("a", 9), used("b", 8), used("c", 7), used("a", 9, "p2")],
      removes: [],
    },
    { when: "its project is gone", known: [used("a", 0.1), used("b", 9)], gone: ["p1"], removes: ["b", "a"] },
    {
      when: "its project is gone and its container is not yet",
      known: [used("a", 0.1)],
      gone: ["p1"],
      inUse: ["a"],
      removes: [],
    },
    {
      when: "one of its two projects is gone",
      known: [used("a", 9), used("a", 9, "p2")],
      gone: ["p1"],
      removes: [],
    },
    {
      when: "several may go, the one unused longest is first",
      known: [used("d", 6), used("a", 3), used("b", 4), used("c", 5)],
      removes: ["d", "c"],
    },
  ])("when $when", ({ known, inUse = [], gone = [], removes }) => {
    const facts = { known, inUse: new Set(inUse.map(image)), gone: new Set(gone), kept: 2, nowMs };
    expect(uselessImages(facts)).toEqual(removes.map(image));
  });

  test("the tag of a build that was broken off, and it takes no rollback's place", () => {
    const tag = { reference: "registry.test/app:build-1", owner: "p1", usedAtMs: nowMs };
    const facts = { inUse: new Set<string>(), gone: new Set<string>(), kept: 2, nowMs };
    const known = [tag, used("a", 9), used("b", 8)];
    expect(uselessImages({ ...facts, known })).toEqual([tag.reference]);
    expect(uselessImages({ ...facts, known, inUse: new Set([tag.reference]) })).toEqual([]);
  });
});

describe("what makes room", () => {
  test.each<Situation>([
    { when: "rollback targets can be fetched again", known: [used("a", 1), used("b", 2)], removes: ["b", "a"] },
    { when: "a placement needs it", known: [used("a", 1), used("b", 2)], inUse: ["b"], removes: ["a"] },
    { when: "it was fetched a moment ago", known: [used("a", 0.001), used("b", 2)], removes: ["b"] },
    { when: "its project is gone", known: [used("a", 0.001)], gone: ["p1"], removes: ["a"] },
  ])("when $when", ({ known, inUse = [], gone = [], removes }) => {
    const facts = { known, inUse: new Set(inUse.map(image)), gone: new Set(gone), nowMs };
    expect(spareImages(facts)).toEqual(removes.map(image));
  });
});
