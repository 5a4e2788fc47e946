import { expect, test } from "vitest";
import { scheduleProblem, timeZoneProblem } from "./schedule.ts";

test.each([
  "* * * * *",
  "0 3 * * *",
  "*/15 0-6 1,15 jan-mar MON-fri",
  "0 0 31 12 7",
  "5-55/10 * * * *",
  " 0  3 * * 0 ",
])("%j is a schedule", (text) => {
  expect(scheduleProblem(text)).toBeNull();
});

test.each([
  "",
  "* * * *",
  "* * * * * *",
  "60 * * * *",
  "* 24 * * *",
  "* * 0 * *",
  "* * * 13 *",
  "* * * * 8",
  "*/0 * * * *",
  "*/60 * * * *",
  "5/10 * * * *",
  "9-3 * * * *",
  "a * * * *",
  "1- * * * *",
  "-1 * * * *",
  "1,,2 * * * *",
  "@daily",
  "* * * * mon-",
  "* * * foo *",
  "1-2-3 * * * *",
  "1/2/3 * * * *",
])("%j is none", (text) => {
  expect(scheduleProblem(text)).toMatch(/\.$/);
});

test.each(["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires"])("%s is a time zone", (name) => {
  expect(timeZoneProblem(name)).toBeNull();
});
test.each(["", "Mars/Olympus", "+02:00", "Europe/Berlin\n", "../etc"])("%j is none", (name) => {
  expect(timeZoneProblem(name)).not.toBeNull();
});
