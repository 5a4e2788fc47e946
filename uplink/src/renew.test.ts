import { expect, test } from "vitest";
import { renewAtMs, renewalUrgency } from "./renew.ts";

test.each([
  { random: 0, share: 0.5 },
  { random: 0.5, share: 0.65 },
  { random: 1, share: 0.8 },
])("with random $random the certificate is renewed at $share of its life", ({ random, share }) => {
  expect(renewAtMs({ fromMs: 1_000, untilMs: 2_000 }, random)).toBeCloseTo(1_000 + 1_000 * share);
});

test.each([
  { nowMs: 1_000, urgency: "in time" },
  { nowMs: 1_749, urgency: "in time" },
  { nowMs: 1_750, urgency: "late" },
  { nowMs: 1_999, urgency: "late" },
  { nowMs: 2_000, urgency: "over" },
])("a renewal that fails at $nowMs is $urgency", ({ nowMs, urgency }) => {
  expect(renewalUrgency({ fromMs: 1_000, untilMs: 2_000 }, nowMs)).toBe(urgency);
});
