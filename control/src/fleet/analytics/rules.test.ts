import { randomUUID } from "node:crypto";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { AnalyticsRowSchema } from "@svc/proto/edge";
import { encodeUniques, noUniques } from "@svc/proto/uniques";
import { describe, expect, test } from "vitest";
import { type AnalyticsData, addUp, noAnalytics } from "./data.ts";
import { analyticsHour, analyticsHours, daysWithSalt, rowsMax } from "./rules.ts";

const now = new Date("2026-03-01T00:30:00Z");
const hour = now.getTime() / 3_600_000 - 0.5;
const aRow = (more: MessageInitShape<typeof AnalyticsRowSchema> = {}) =>
  create(AnalyticsRowSchema, {
    ...{ series: randomUUID(), seq: 1n, projectId: randomUUID(), channel: "production", hour: BigInt(hour) },
    ...{ status2xx: 3n, paths: [{ value: "/", count: 3n }], visitors: encodeUniques(noUniques()) },
    ...more,
  });
const many = (count: number) => Array.from({ length: count }, (_, n) => ({ value: `/${n}`, count: 1n }));

describe("a row", () => {
  test.each([
    { when: "is as routers write them", row: {}, is: true },
    { when: "is of an edge whose clock is two hours ahead", row: { hour: BigInt(hour + 2) }, is: true },
    { when: "is of an edge whose clock is two hours behind", row: { hour: BigInt(hour - 2) }, is: true },
    { when: "was counted a week ago", row: { hour: BigInt(hour - 167) }, is: true },
    { when: "is older", row: { hour: BigInt(hour - 169) }, is: false },
    { when: "is of tomorrow", row: { hour: BigInt(hour + 24) }, is: false },
    { when: "has no series", row: { series: "none" }, is: false },
    { when: "has another channel", row: { channel: "other" }, is: false },
    { when: "has a project that is none", row: { projectId: "1; drop table" }, is: false },
    { when: "has visitors that nobody counted", row: { visitors: Uint8Array.of(9, 9) }, is: false },
    { when: "has more paths than there is room for", row: { paths: many(300) }, is: false },
    { when: "has a path that is too long", row: { paths: [{ value: "x".repeat(201), count: 1n }] }, is: false },
    { when: "has what no database takes", row: { paths: [{ value: "/\u0000", count: 1n }] }, is: false },
    { when: "has more requests than there can be", row: { status2xx: 2n ** 40n }, is: false },
    { when: "has a number that cannot be read", row: { seq: 2n ** 60n }, is: false },
  ])("that $when is taken: $is", ({ row, is }) => expect(analyticsHour(aRow(row), now) !== null).toBe(is));

  test("counts once in a message, and of a message so many", () => {
    const row = aRow();
    expect(analyticsHours([row, row, aRow({ channel: "nothing" })], now)).toHaveLength(1);
    expect(
      analyticsHours(
        Array.from({ length: rowsMax + 50 }, () => aRow()),
        now,
      ),
    ).toHaveLength(rowsMax);
  });
});

describe("adding up", () => {
  const of = (more: Partial<AnalyticsData>): AnalyticsData => ({ ...noAnalytics(), ...more });

  test("sums statuses and values, the most frequent first", () => {
    const sum = addUp(
      [
        of({
          s2xx: 2,
          paths: [
            ["/a", 2],
            ["/b", 5],
          ],
        }),
        of({ s2xx: 1, s5xx: 4, sampled: true, paths: [["/a", 9]] }),
      ],
      25,
      false,
    );
    expect(sum).toMatchObject({
      s2xx: 3,
      s5xx: 4,
      sampled: true,
      paths: [
        ["/a", 11],
        ["/b", 5],
      ],
    });
  });

  test("keeps so many values, and the rest as one if that is wanted", () => {
    const one = of({
      paths: [
        ["(other)", 100],
        ["/a", 4],
        ["/b", 3],
        ["/c", 2],
      ],
    });
    expect(addUp([one], 2, true).paths).toEqual([
      ["/a", 4],
      ["/b", 3],
      ["(other)", 102],
    ]);
    expect(addUp([one], 2, false).paths).toEqual([
      ["(other)", 100],
      ["/a", 4],
    ]);
    expect(addUp([addUp([one], 2, true)], 2, true).paths).toEqual([
      ["/a", 4],
      ["/b", 3],
      ["(other)", 102],
    ]);
  });
});

test.each([
  { at: "2026-03-01T01:59:59Z", first: "2026-02-28", last: "2026-03-08" },
  { at: "2026-03-01T02:00:00Z", first: "2026-03-01", last: "2026-03-08" },
  { at: "2026-12-31T23:00:00Z", first: "2026-12-31", last: "2027-01-07" },
])("at $at there are salts of $first to $last", ({ at, first, last }) => {
  const days = daysWithSalt(new Date(at));
  expect([days[0], days.at(-1)]).toEqual([first, last]);
  expect(days).toHaveLength((Date.parse(last) - Date.parse(first)) / 86_400_000 + 1);
});
