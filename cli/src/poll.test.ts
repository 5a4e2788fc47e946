import { expect, test } from "vitest";
import { CliError, fromServerError } from "./errors.ts";
import { isPassing, outageDelay, pollDelay } from "./poll.ts";

const answer = (status: number, retryAfterSeconds: number | null = null) =>
  fromServerError({ status, code: null, message: "", retryAfterSeconds });

test.each([
  [0, 300],
  [9999, 300],
  [10_000, 1000],
  [60_000, 2000],
])("%i ms in, the next question comes %i ms later", (elapsedMs, delayMs) => {
  expect(pollDelay(elapsedMs)).toBe(delayMs);
});

test.each([
  ["no answer", new CliError("CLOUD_UNAVAILABLE", ""), true],
  ["a 503", answer(503), true],
  ["too many requests", answer(429), true],
  ["a missing deployment", answer(404), false],
  ["a refused key", answer(401), false],
  ["a mistake of ours", new TypeError("x"), false],
])("%s passes: %s", (_, thrown, expected) => {
  expect(isPassing(thrown)).toBe(expected);
});

test.each([
  [null, 2000],
  [1, 2000],
  [10, 10_000],
  [3600, 30_000],
])("told to come back after %s s, we wait %i ms", (seconds, delayMs) => {
  expect(outageDelay(answer(429, seconds))).toBe(delayMs);
});
