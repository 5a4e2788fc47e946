import { expect, test } from "vitest";
import { metricsOf, metricsRange, rangeOf } from "./rules.ts";

const now = new Date("2030-03-01T12:30:00.000Z");

test.each([
  { span: "1h", bucketSize: "hour", since: "2030-03-01T11:30:00.000Z" },
  { span: "24h", bucketSize: "hour", since: "2030-02-28T12:30:00.000Z" },
  { span: "3d", bucketSize: "hour", since: "2030-02-26T12:30:00.000Z" },
  { span: "7d", bucketSize: "hour", since: "2030-02-22T12:30:00.000Z" },
  { span: "90d", bucketSize: "day", since: "2029-12-01T12:30:00.000Z" },
] as const)("$span is in buckets of a $bucketSize since $since", ({ span, bucketSize, since }) => {
  expect(rangeOf(span, now)).toEqual({ bucketSize, since: new Date(since) });
});

test("all has no beginning", () => {
  expect(rangeOf("all", now)).toEqual({ bucketSize: "day", since: null });
});

test.each([
  { asks: {}, as: "7d" },
  { asks: { hours: 24 }, as: "24h" },
  { asks: { span: "1h", hours: 24 }, as: "1h" },
  { asks: { span: "all", hours: 1 }, as: "all" },
] as const)("a question for $asks is one for $as", ({ asks, as }) => {
  expect(metricsRange(asks, now)).toEqual(rangeOf(as, now));
});

test("totals are the sums of the series", () => {
  const point = {
    bucket: "2030-03-01T00:00:00.000Z",
    count: 9,
    bytesIn: 2,
    bytesOut: 3,
    s2xx: 4,
    s3xx: 1,
    s4xx: 2,
    s5xx: 1,
  };
  expect(metricsOf("day", [point, { ...point, count: 1, s5xx: 0 }])).toMatchObject({
    ...{ bucketSize: "day", totalRequests: 10, totalBytesIn: 4, totalBytesOut: 6 },
    totalStatuses: { s2xx: 8, s3xx: 2, s4xx: 4, s5xx: 1 },
  });
  expect(metricsOf("hour", [])).toMatchObject({ totalRequests: 0, series: [] });
  const full = { ...point, count: Number.MAX_SAFE_INTEGER };
  expect(metricsOf("hour", [full, full]).totalRequests).toBe(Number.MAX_SAFE_INTEGER);
});
