import {
  channels,
  type FigureSpan,
  figureSpanDefault,
  figureSpanHours,
  figureSpans,
  metricsReply,
  type Resources,
  resourcesReply,
} from "@svc/proto";
import { fillGaps, sparkline } from "../chart.ts";
import { command, flag, type Screen } from "../command.ts";
import { formatBytes } from "../format.ts";
import { listing } from "../listing.ts";
import { resolveTarget, targetFacts } from "../target.ts";

const hourMs = 3_600_000;
const chartColumnsMax = 72;
/** Of the newest buckets; whoever wants them all takes the JSON. */
const rowsMax = 12;
const bytesPerMb = 1024 ** 2;

export const metrics = command({
  name: "metrics",
  summary: "Show what visitors asked for, and what the app takes of processor and memory",
  details:
    "Hours and days are UTC. Processor is in percent of one core, of all containers together. A dot in a chart: nothing ran.",
  flags: {
    project: flag.project,
    span: flag.choice("--span <span>", `How far to look back; default: ${figureSpanDefault}`, figureSpans),
    channel: flag.choice("--channel <channel>", "Of this channel only", channels),
  },
  examples: ["svc metrics", "svc metrics --span 24h", "svc metrics --span 90d --channel production --json"],
  async run(context, { project: named, span = figureSpanDefault, channel }) {
    const target = await resolveTarget(context, named);
    const api = await context.api();
    const query = `?span=${span}${channel === undefined ? "" : `&channel=${channel}`}`;
    const traffic = await api.get(`/projects/${target.id}/metrics${query}`, metricsReply);
    const taken = await api.get(`/projects/${target.id}/resources${query}`, resourcesReply);
    return {
      project: targetFacts(target),
      span,
      channel: channel ?? null,
      metrics: traffic.metrics,
      resources: taken.resources,
    };
  },
  render({ span, metrics: traffic, resources }, screen) {
    const { paint, now } = screen;
    const { series, totalStatuses: statuses } = traffic;
    const charts = chartsOf(span, now, screen);
    const rows = series
      .slice(-rowsMax)
      .toReversed()
      .map((point) => [
        point.bucket.slice(0, traffic.bucketSize === "hour" ? 16 : 10).replace("T", " "),
        ...[point.count, point.s4xx, point.s5xx].map(String),
        ...[point.bytesIn, point.bytesOut].map(formatBytes),
      ]);
    const left = series.length - rows.length;
    return [
      `${paint("bold", "Requests")}   ${traffic.totalRequests}, in ${formatBytes(traffic.totalBytesIn)}, out ${formatBytes(traffic.totalBytesOut)}`,
      `           2xx ${statuses.s2xx}  3xx ${statuses.s3xx}  4xx ${statuses.s4xx}  5xx ${statuses.s5xx}`,
      ...charts(series, ({ count }) => count, 0),
      ...takenLines(resources, screen),
      ...charts(resources.series, ({ cpuPctMax }) => cpuPctMax, null),
      `${paint("bold", "On disk")}    ${formatBytes(resources.disk.staticBytes)} of bundles, ${formatBytes(resources.disk.imageBytes)} of images`,
      ...(rows.length === 0
        ? []
        : [
            "",
            listing(
              [traffic.bucketSize === "hour" ? "HOUR" : "DAY", "REQUESTS", "4XX", "5XX", "IN", "OUT"],
              rows,
              screen,
              {
                alignRight: [1, 2, 3, 4, 5],
              },
            ),
          ]),
      ...(left > 0 ? [paint("dim", `and ${left} more, with --json`)] : []),
    ].join("\n");
  },
});

/** What containers take and took; one line where none ran: files take nothing. */
function takenLines({ current, limits, series }: Resources, { paint }: Screen): string[] {
  // The newest sample is in no hour yet.
  const points = current === null ? series : [...series, current];
  if (points.length === 0) return [`${paint("bold", "Containers")} none ran`];
  const cpuMax = Math.max(...points.map((each) => each.cpuPctMax));
  const memoryMax = Math.max(...points.map((each) => each.memBytesMax));
  const cpu = current === null ? "nothing runs" : `${current.cpuPctAvg} %`;
  const memory = current === null ? "nothing runs" : formatBytes(current.memBytesAvg);
  return [
    `${paint("bold", "Processor")}  ${cpu}, at most ${cpuMax} %; a container may take ${limits.cpuMillicores / 10} %`,
    `${paint("bold", "Memory")}     ${memory}, at most ${formatBytes(memoryMax)}; a container may take ${formatBytes(limits.memoryMb * bytesPerMb)}`,
  ];
}

/** Draws series of this span as a line each, or as none where there is nothing to draw. */
function chartsOf(span: FigureSpan, now: Date, { paint, columns }: Screen) {
  const hours = figureSpanHours[span];
  const width = Math.max(1, Math.min(chartColumnsMax, (columns ?? chartColumnsMax) - 11));
  return <T extends { bucket: string }, V extends number | null>(
    series: readonly T[],
    read: (point: T) => V,
    absent: V,
  ): string[] => {
    const [oldest] = series;
    if (oldest === undefined) return [];
    const range = {
      first: hours === null ? new Date(oldest.bucket) : new Date(now.getTime() - hours * hourMs),
      last: now,
      stepMs: hours === null || hours > 168 ? 24 * hourMs : hourMs,
    };
    return [`           ${paint("cyan", sparkline(fillGaps(series, range, read, absent), width))}`.trimEnd()];
  };
}
