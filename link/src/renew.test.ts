import { expect, test } from "vitest";
import { renewAtMs, renewalUrgency } from "./renew.ts";
import { createWish } from "./wish.ts";

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

test("a wish that was made before anybody waited is not lost, and is taken once", async () => {
  const never = new AbortController().signal;
  const wish = createWish();
  wish.make();
  wish.make();
  expect(await wish.wait(60_000, never)).toBe(true);
  expect(await wish.wait(1, never)).toBe(false);
  const waiting = wish.wait(60_000, never);
  wish.make();
  expect(await waiting).toBe(true);
});

test("a wait for a wish ends with its signal", async () => {
  const stop = new AbortController();
  const waiting = createWish().wait(60_000, stop.signal);
  stop.abort();
  expect(await waiting).toBe(false);
});
