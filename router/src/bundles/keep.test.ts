import { expect, test } from "vitest";
import { type IdleBundle, uselessBundles } from "./keep.ts";

const minuteMs = 60_000;
const nowMs = 1_000 * minuteMs;
const bounds = { kept: 2, graceMs: 10 * minuteMs };
/** Used by projects so many minutes ago. */
const bundle = (name: string, usedBy: Record<string, number> = {}, placedMinutesAgo = 500): IdleBundle => ({
  name,
  usedBy: new Map(Object.entries(usedBy).map(([project, ago]) => [project, nowMs - ago * minuteMs])),
  placedAtMs: nowMs - placedMinutesAgo * minuteMs,
});

test.each<{ when: string; idle: IdleBundle[]; projects?: string[] | null; removes: string[] }>([
  { when: "the project may go back to them", idle: [bundle("a", { p: 90 }), bundle("b", { p: 80 })], removes: [] },
  {
    when: "the project went away from newer ones since",
    idle: [bundle("a", { p: 90 }), bundle("b", { p: 80 }), bundle("c", { p: 70 })],
    removes: ["a"],
  },
  {
    when: "many went out of use a moment ago",
    idle: [bundle("a", { p: 9 }), bundle("b", { p: 8 }), bundle("c", { p: 7 }), bundle("d", { p: 11 })],
    removes: ["d"],
  },
  {
    when: "each project counts for itself",
    idle: [bundle("a", { p: 90 }), bundle("b", { p: 80 }), bundle("c", { q: 70 })],
    removes: [],
  },
  {
    when: "another project keeps the same files",
    idle: [bundle("a", { p: 90, q: 90 }), bundle("b", { p: 80 }), bundle("c", { p: 70 })],
    removes: [],
  },
  { when: "its project is gone", idle: [bundle("a", { p: 1 })], projects: ["q"], removes: ["a"] },
  { when: "the table may not be whole", idle: [bundle("a", { p: 1 })], projects: null, removes: [] },
  {
    when: "one of its projects is gone",
    idle: [bundle("a", { p: 1, q: 90 })],
    projects: ["q"],
    removes: [],
  },
  { when: "nobody knows what it was for", idle: [bundle("a")], removes: ["a"] },
  { when: "it has just arrived", idle: [bundle("a", {}, 5)], removes: [] },
])("when $when", ({ idle, projects = ["p", "q"], removes }) => {
  expect(uselessBundles(idle, projects && new Set(projects), nowMs, bounds)).toEqual(removes);
});
