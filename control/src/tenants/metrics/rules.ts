// @pure
import {
  type BucketSize,
  type FigureSpan,
  figureSpanDefault,
  figureSpanHours,
  type Metrics,
  type MetricsQuery,
} from "@svc/proto";

/** Which buckets are asked for: those that end after `since`, which is null for all that there are. */
export interface Range {
  bucketSize: BucketSize;
  since: Date | null;
}

const hourMs = 3_600_000;
const bucketSizes: Readonly<Record<FigureSpan, BucketSize>> = {
  ...{ "1h": "hour", "24h": "hour", "3d": "hour", "7d": "hour" },
  ...{ "90d": "day", all: "day" },
};

/** What `span` means at `now`. A bucket of which only the end is within it is whole in the answer. */
export function rangeOf(span: FigureSpan, now: Date): Range {
  const hours = figureSpanHours[span];
  return { bucketSize: bucketSizes[span], since: hours === null ? null : new Date(now.getTime() - hours * hourMs) };
}

/** The range of a question for traffic, in which `span` goes before `hours`. */
export const metricsRange = ({ span, hours }: Pick<MetricsQuery, "span" | "hours">, now: Date): Range =>
  span === undefined && hours !== undefined
    ? { bucketSize: "hour", since: new Date(now.getTime() - hours * hourMs) }
    : rangeOf(span ?? figureSpanDefault, now);

/** The answer for a series, whose totals are its sums: as large as a number can be read at most. */
export function metricsOf(bucketSize: BucketSize, series: Metrics["series"]): Metrics {
  const total = (name: Exclude<keyof Metrics["series"][number], "bucket">): number =>
    Math.min(
      Number.MAX_SAFE_INTEGER,
      series.reduce((sum, point) => sum + point[name], 0),
    );
  return {
    bucketSize,
    totalRequests: total("count"),
    totalBytesIn: total("bytesIn"),
    totalBytesOut: total("bytesOut"),
    totalStatuses: { s2xx: total("s2xx"), s3xx: total("s3xx"), s4xx: total("s4xx"), s5xx: total("s5xx") },
    series,
  };
}
