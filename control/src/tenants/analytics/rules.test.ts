import { expect, test } from "vitest";
import { readingOf } from "./rules.ts";

const at = (text: string) => new Date(`${text}Z`);

test.each([
  { span: "1h", now: "2026-03-01T00:30", hours: [["2026-02-28T23:00", null]], days: null },
  { span: "1h", now: "2026-03-01T01:00", hours: [["2026-03-01T00:00", null]], days: null },
  { span: "24h", now: "2026-01-01T12:20", hours: [["2025-12-31T12:00", null]], days: null },
  {
    span: "3d",
    now: "2026-03-02T12:20",
    hours: [
      ["2026-02-27T12:00", "2026-02-28T00:00"],
      ["2026-03-01T00:00", null],
    ],
    days: ["2026-02-28", "2026-03-01"],
  },
  {
    span: "7d",
    now: "2026-03-02T00:00",
    hours: [
      ["2026-02-23T00:00", "2026-02-23T00:00"],
      ["2026-03-01T00:00", null],
    ],
    days: ["2026-02-23", "2026-03-01"],
  },
  {
    span: "90d",
    now: "2026-03-31T23:59",
    hours: [["2026-03-30T00:00", null]],
    days: ["2025-12-31", "2026-03-30"],
  },
  { span: "all", now: "2026-03-31T23:59", hours: [["2026-03-30T00:00", null]], days: [null, "2026-03-30"] },
] as const)("$span at $now reads each hour once", ({ span, now, hours, days }) => {
  expect(readingOf(span, at(now))).toEqual({
    hours: hours.map(([from, before]) => ({ from: at(from), before: before === null ? null : at(before) })),
    days: days === null ? null : { from: days[0], before: days[1] },
  });
});
