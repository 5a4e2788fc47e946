import { expect, test } from "vitest";
import { deadScheduleProblem, nextFire, scheduleProblem, timeZoneProblem } from "./schedule.ts";

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

const berlin = "Europe/Berlin";
const lordHowe = "Australia/Lord_Howe";

test.each([
  { when: "an instant of it is now", schedule: "* * * * *", after: "2026-11-02T12:00Z", fires: ["2026-11-02T12:01"] },
  {
    when: "it fires at once after",
    schedule: "* * * * *",
    after: "2026-11-02T11:59:59.999Z",
    fires: ["2026-11-02T12:00"],
  },
  {
    when: "it has words and blanks",
    schedule: " 0  5 * JAN Sun ",
    after: "2026-11-02T00:00Z",
    fires: ["2027-01-03T05:00"],
  },
  {
    when: "it names a day of the month and one of the week, either of which will do",
    schedule: "0 0 1 * 1",
    after: "2026-10-24T00:00Z",
    fires: ["2026-10-26T00:00", "2026-11-01T00:00", "2026-11-02T00:00"],
  },
  { when: "7 is Sunday", schedule: "0 0 * * 7", after: "2026-10-24T00:00Z", fires: ["2026-10-25T00:00"] },
  { when: "it is for leap years", schedule: "0 0 29 2 *", after: "2097-01-01T00:00Z", fires: ["2104-02-29T00:00"] },
  {
    when: "its local time is left out once",
    schedule: "30 2 * * *",
    timezone: berlin,
    after: "2026-03-28T12:00Z",
    fires: ["2026-03-29T01:00", "2026-03-30T00:30"],
  },
  {
    when: "its local time is there twice",
    schedule: "30 2 * * *",
    timezone: berlin,
    after: "2026-10-24T12:00Z",
    fires: ["2026-10-25T00:30", "2026-10-26T01:30"],
  },
  {
    when: "it begins between the two",
    schedule: "30 2 * * *",
    timezone: berlin,
    after: "2026-10-25T00:45Z",
    fires: ["2026-10-26T01:30"],
  },
  {
    when: "it is hourly and an hour is left out",
    schedule: "0 * * * *",
    timezone: berlin,
    after: "2026-03-28T23:30Z",
    fires: ["2026-03-29T00:00", "2026-03-29T01:00", "2026-03-29T02:00"],
  },
  {
    when: "it is hourly and an hour is there twice",
    schedule: "0 * * * *",
    timezone: berlin,
    after: "2026-10-24T23:30Z",
    fires: ["2026-10-25T00:00", "2026-10-25T01:00", "2026-10-25T02:00"],
  },
  {
    when: "it is half-hourly and an hour is left out",
    schedule: "*/30 * * * *",
    timezone: berlin,
    after: "2026-03-29T00:00Z",
    fires: ["2026-03-29T00:30", "2026-03-29T01:00", "2026-03-29T01:30"],
  },
  {
    when: "all of its instants are in the hour that is left out",
    schedule: "*/30 2 * * *",
    timezone: berlin,
    after: "2026-03-28T12:00Z",
    fires: ["2026-03-30T00:00", "2026-03-30T00:30"],
  },
  {
    when: "two of its local times become one instant",
    schedule: "0 2,3 * * *",
    timezone: berlin,
    after: "2026-03-28T12:00Z",
    fires: ["2026-03-29T01:00", "2026-03-30T00:00", "2026-03-30T01:00"],
  },
  {
    when: "half an hour is left out",
    schedule: "15 2 * * *",
    timezone: lordHowe,
    after: "2026-10-02T16:00Z",
    fires: ["2026-10-03T15:30", "2026-10-04T15:15"],
  },
  {
    when: "half an hour is there twice",
    schedule: "45 1 * * *",
    timezone: lordHowe,
    after: "2026-04-03T15:00Z",
    fires: ["2026-04-04T14:45", "2026-04-05T15:15"],
  },
  {
    when: "midnight is left out",
    schedule: "0 0 * * *",
    timezone: "America/Sao_Paulo",
    after: "2018-11-03T12:00Z",
    fires: ["2018-11-04T03:00", "2018-11-05T02:00"],
  },
])("when $when", ({ schedule, timezone = "UTC", after, fires }) => {
  let at: Date | null = new Date(after);
  const found = fires.map(() => {
    at = at && nextFire(schedule, timezone, at);
    return at?.toISOString().slice(0, 16);
  });
  expect(found).toEqual(fires);
});

test.each(["0 0 31 2 *", "0 0 30 2 *", "* * 31 4,6,9,11 *"])("%j never fires", (schedule) => {
  expect(scheduleProblem(schedule)).toBeNull();
  expect(nextFire(schedule, "UTC", new Date(0))).toBeNull();
  expect(deadScheduleProblem(schedule)).toMatch(/never fires/);
});
test.each(["0 0 31 2 1", "0 0 29 2 *", "0 0 31 2,3 *", "* * * * *"])("%j fires", (schedule) => {
  expect(deadScheduleProblem(schedule)).toBeNull();
});

test("in a zone that this machine does not know nothing ever fires", () => {
  expect(nextFire("* * * * *", "Mars/Olympus", new Date(0))).toBeNull();
});
