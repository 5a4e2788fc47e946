import { expect, test } from "vitest";
import { backOffMs } from "./back-off.ts";

const bounds = { firstMs: 100, maxMs: 8_000 };

test.each([
  { failures: 1, random: 1, ms: 100 },
  { failures: 1, random: 0, ms: 0 },
  { failures: 3, random: 1, ms: 400 },
  { failures: 3, random: 0.5, ms: 200 },
  { failures: 8, random: 1, ms: 8_000 },
  { failures: 10_000, random: 1, ms: 8_000 },
])("after $failures failures at $random: $ms ms", ({ failures, random, ms }) => {
  expect(backOffMs(failures, bounds, random)).toBe(ms);
});
