import { expect, test } from "vitest";
import { type ShownCertificate, takesOver } from "./rules.ts";

const shown: ShownCertificate = { subject: "edge", fromMs: 1_000, untilMs: 2_000, caPem: "ca" };
const given = { ...shown, fromMs: 1_500, untilMs: 2_500 };

test.each([
  { when: "there is nothing else", shown: null, given, nowMs: 1_500, is: true },
  { when: "the one before is good for long", shown, given, nowMs: 1_899, is: false },
  { when: "the one before is soon over", shown, given, nowMs: 1_900, is: true },
  { when: "the one before is over", shown, given, nowMs: 3_000, is: true },
  { when: "it is of another edge", shown, given: { ...given, subject: "other" }, nowMs: 1_500, is: true },
  { when: "it goes with other authorities", shown, given: { ...given, caPem: "both" }, nowMs: 1_500, is: true },
])("another certificate is shown $is when $when", ({ shown, given, nowMs, is }) => {
  expect(takesOver(shown, given, nowMs)).toBe(is);
});
