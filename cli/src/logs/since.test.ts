import { expect, test } from "vitest";
import { isSince, parseSince } from "./since.ts";

const now = new Date("2030-01-10T12:00:00Z");

test.each([
  ["90s", "2030-01-10T11:58:30.000Z"],
  ["15m", "2030-01-10T11:45:00.000Z"],
  ["1h30m", "2030-01-10T10:30:00.000Z"],
  ["2d", "2030-01-08T12:00:00.000Z"],
  ["1w", "2030-01-03T12:00:00.000Z"],
  ["500ms", "2030-01-10T11:59:59.500Z"],
  ["2030-01-09", "2030-01-09T00:00:00.000Z"],
  ["2030-01-09T10:00", "2030-01-09T10:00:00.000Z"],
  ["2030-01-09T10:00:00Z", "2030-01-09T10:00:00.000Z"],
  ["2030-01-09 10:00:00.25", "2030-01-09T10:00:00.250Z"],
  ["2030-01-09T10:00:00+02:00", "2030-01-09T08:00:00.000Z"],
  ["2030-01-09T10:00:00+0200", "2030-01-09T08:00:00.000Z"],
])("--since %s means from %s", (text, expected) => {
  expect(parseSince(text, now)?.toISOString()).toBe(expected);
});

test.each([
  "",
  "yesterday",
  "15",
  "m",
  "15 m",
  "-15m",
  "1h30",
  "15x",
  "2030-13-01",
  "2030-01-32",
  "10:00",
  "999999999w",
])("--since %j is refused", (text) => {
  expect(parseSince(text, now)).toBeNull();
});

test.each([
  ["2030-01-10T11:59:00Z started", true],
  ["2030-01-10T11:30:00.123456789Z old", false],
  ["[2030-01-10T11:30:00Z] old", false],
  ["2030-01-10 11:30:00 old", false],
  ["2030-01-10T13:30:00+02:00 old", false],
  ["2030-01-10T11:45:00Z just then", true],
  ["no time at all", true],
  ["", true],
  ["at 2030-01-10T11:30:00Z not leading", true],
  ["2030-01-99T11:30:00Z unreadable", true],
])("%j is kept from 11:45 on: %s", (line, kept) => {
  expect(isSince(line, new Date("2030-01-10T11:45:00Z"))).toBe(kept);
});
