import { expect, test } from "vitest";
import { createTimeTeller } from "./times.ts";

const tell = createTimeTeller(new Date("2030-06-01T12:00:00Z"), "America/New_York");

test.each([
  ["2030-06-01T11:03:07.123456789Z listening", "07:03:07 listening"],
  ["2030-06-01T11:03:07Z   indented", "07:03:07   indented"],
  ["2030-06-01T02:00:00.5Z late yesterday", "05-31 22:00:00 late yesterday"],
  ["2029-12-31T23:00:00Z last year", "12-31 18:00:00 last year"],
  ["2030-06-01T11:03:07Z ", "07:03:07 "],
  ["no time", "no time"],
  ["at 2030-06-01T11:03:07Z inside", "at 2030-06-01T11:03:07Z inside"],
  ["2030-99-99T11:03:07Z no such day", "2030-99-99T11:03:07Z no such day"],
])("%j reads %j five hours to the west", (line, told) => {
  expect(tell(line)).toBe(told);
});
