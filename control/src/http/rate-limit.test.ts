import { expect, test } from "vitest";
import { createRateLimit } from "./rate-limit.ts";

test("a user is held back for the rest of the minute once the limit is reached", () => {
  const limit = createRateLimit();
  expect([0, 10, 20].map((at) => limit("ada", 2, at))).toEqual([null, null, 60]);
  expect(limit("ada", 2, 45_000)).toBe(15);
  expect(limit("ada", 2, 60_000)).toBeNull();
});

test("users do not count against one another", () => {
  const limit = createRateLimit();
  expect(limit("ada", 1, 0)).toBeNull();
  expect(limit("bob", 1, 0)).toBeNull();
  expect(limit("ada", 1, 1)).toBe(60);
});
