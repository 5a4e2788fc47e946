import fc from "fast-check";
import { expect, it, test } from "vitest";
import { answered, asked, checkInMs, disconnected, granted, leaseAction } from "./validity.ts";

/** Granted by a request sent at 1000 for 6 s: holds until 6940, first keep-alive at 3000. */
const fresh = granted(1000, 6000);

test.each([
  { when: "just granted", validity: fresh, now: 1500, action: "wait" },
  { when: "a third has passed", validity: fresh, now: 3000, action: "ask" },
  { when: "the keep-alive is on its way", validity: asked(fresh, 3000), now: 4499, action: "wait" },
  { when: "it was not answered for a quarter", validity: asked(fresh, 3000), now: 4500, action: "reopen" },
  { when: "the stream just broke", validity: disconnected(asked(fresh, 3000), 3100), now: 3200, action: "wait" },
  { when: "the stream broke a moment ago", validity: disconnected(asked(fresh, 3000), 3100), now: 3400, action: "ask" },
  { when: "one per cent is left", validity: asked(fresh, 6900), now: 6940, action: "lost" },
  { when: "the process stood still past the end", validity: fresh, now: 60_000, action: "lost" },
])("$action when $when", ({ validity, now, action }) => {
  expect(leaseAction(validity, now)).toBe(action);
});

test.each([
  { when: "in time", now: 3500, ttl: 6n, until: 8940 },
  { when: "with a shorter time to live", now: 3500, ttl: 4n, until: 6960 },
  { when: "with a longer time to live", now: 3500, ttl: 60n, until: 8940 },
  { when: "just before the end", now: 6939, ttl: 6n, until: 8940 },
])("an answer $when counts from the moment of sending", ({ now, ttl, until }) => {
  expect(answered(asked(fresh, 3000), ttl, now)?.untilMs).toBe(until);
});

test.each([
  { when: "the server no longer knows the lease", now: 3500, ttl: 0n },
  { when: "the answer comes after the end", now: 6940, ttl: 6n },
])("the lease is lost when $when", ({ now, ttl }) => {
  expect(answered(asked(fresh, 3000), ttl, now)).toBeNull();
});

test.each([
  { when: "much is left", validity: fresh, now: 2000, inMs: 150 },
  { when: "the lease is long", validity: granted(0, 600_000), now: 0, inMs: 250 },
  { when: "the end is near", validity: fresh, now: 6930, inMs: 10 },
  { when: "the end has passed", validity: fresh, now: 7000, inMs: 1 },
])("looks again in $inMs ms when $when", ({ validity, now, inMs }) => {
  expect(checkInMs(validity, now)).toBe(inMs);
});

it("an answer that nothing waits for changes nothing", () => {
  expect(answered(fresh, 6n, 3500)).toEqual(fresh);
});

it("never holds longer than the server, at any delay and with clocks that differ by one per cent", () => {
  const arguments_ = [
    fc.integer({ min: 2000, max: 60_000 }),
    fc.integer({ min: 0, max: 5000 }),
    fc.double({ min: 0.99, max: 1, noNaN: true }),
  ] as const;
  fc.assert(
    fc.property(...arguments_, (ttlMs, delayMs, rate) => {
      // `rate`: how fast the holder's clock runs against the server's. The server counts from its receipt.
      const holderEndsMs = granted(0, ttlMs).untilMs / rate;
      const serverEndsMs = delayMs + ttlMs;
      expect(holderEndsMs).toBeLessThanOrEqual(serverEndsMs + 1e-6);
    }),
  );
});
