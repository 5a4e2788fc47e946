import { expect, test } from "vitest";
import { nextOffsetMs } from "./dates.ts";

test.each([
  { what: "the same again", believed: 1_000, offsetMs: 1_000, withinMs: 2, next: 1_000 },
  { what: "what may be the answer's way", believed: 1_000, offsetMs: 1_005, withinMs: 10, next: 1_000 },
  { what: "an answer that took seconds", believed: 1_000, offsetMs: 5_000, withinMs: 5_000, next: 1_000 },
  { what: "a clock that has drifted ahead", believed: 1_000, offsetMs: 1_100, withinMs: 10, next: 1_090 },
  { what: "a clock that has drifted behind", believed: 1_000, offsetMs: 900, withinMs: 10, next: 910 },
  { what: "a database whose clock was set", believed: 1_000, offsetMs: 3_601_000, withinMs: 3, next: 3_600_997 },
])("$what", ({ believed, offsetMs, withinMs, next }) => {
  expect(nextOffsetMs(believed, { offsetMs, withinMs })).toBe(next);
});
