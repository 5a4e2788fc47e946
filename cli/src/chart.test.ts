import { expect, test } from "vitest";
import { bar, fillGaps, sparkline } from "./chart.ts";

test.each([
  { of: "nothing", values: [], shows: "" },
  { of: "zeros", values: [0, 0, 0], shows: "   " },
  { of: "each height", values: [1, 2, 3, 4, 5, 6, 7, 8], shows: "▁▂▃▄▅▆▇█" },
  { of: "very little beside a lot", values: [1, 0, 1_000_000], shows: "▁ █" },
  { of: "what nobody measured", values: [null, 5, null], shows: "·█·" },
  { of: "one value", values: [3], shows: "█" },
])("a sparkline of $of", ({ values, shows }) => {
  expect(sparkline(values)).toBe(shows);
});

test("neighbours share a column where there is too little room, and no peak is lost", () => {
  expect(sparkline([0, 8, 0, 0, 2, 4], 3)).toBe("█ ▄");
  expect(sparkline([8, 0, 0, 0, 0], 2)).toBe("█ ");
  expect(sparkline([null, null, null, 1], 2)).toBe("·█");
  expect([
    ...sparkline(
      Array.from({ length: 10_000 }, (_, at) => at),
      60,
    ),
  ]).toHaveLength(60);
  expect(sparkline([1, 2], 0)).toBe("█");
});

test.each([
  { part: 0, shows: "" },
  { part: -1, shows: "" },
  { part: 0.0001, shows: "▏" },
  { part: 0.5, shows: "██" },
  { part: 0.53, shows: "██▏" },
  { part: 1, shows: "████" },
  { part: 7, shows: "████" },
])("a bar of $part", ({ part, shows }) => {
  expect(bar(part, 4)).toBe(shows);
});

test("what a sparse series leaves out is filled in between both ends, which count", () => {
  const hour = (at: string) => new Date(`2030-01-02T${at}:00.000Z`);
  const series = [{ bucket: "2030-01-02T01:00:00.000Z", count: 5 }];
  const range = { first: hour("00:10"), last: hour("03:59"), stepMs: 3_600_000 };
  expect(fillGaps(series, range, ({ count }) => count, 0)).toEqual([0, 5, 0, 0]);
  expect(fillGaps(series, { ...range, last: hour("00:00") }, ({ count }) => count, null)).toEqual([null]);
  expect(fillGaps(series, { ...range, first: hour("05:00") }, ({ count }) => count, 0)).toEqual([]);
});
