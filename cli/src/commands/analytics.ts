import { type AnalyticsView, analyticsReply, channels, figureSpanDefault, figureSpans } from "@svc/proto";
import { bar, fillGaps, sparkline } from "../chart.ts";
import { command, flag, type Screen } from "../command.ts";
import { listing } from "../listing.ts";
import { resolveTarget, targetFacts } from "../target.ts";

const lists = {
  paths: "PATH",
  referrers: "REFERRER",
  countries: "COUNTRY",
  devices: "DEVICE",
  browsers: "BROWSER",
  operatingSystems: "SYSTEM",
} as const;
const shownMax = 10;
const barColumns = 24;
/** Of the newest days with visitors; whoever wants them all takes the JSON. */
const daysMax = 14;
const dayMs = 86_400_000;
const chartColumnsMax = 72;

export const analytics = command({
  name: "analytics",
  summary: "Show what visitors of a site look at, and nearly how many they are each day",
  details:
    "Lists are of page views, robots included; visitors are without robots. No cookie is set, and nothing is kept by which anybody could be recognised on another day.",
  flags: {
    project: flag.project,
    channel: flag.choice("--channel <channel>", "Of this channel; default: production", channels),
    span: flag.choice("--span <span>", `How far back; default: ${figureSpanDefault}`, figureSpans),
  },
  examples: ["svc analytics", "svc analytics --span 90d --json", "svc analytics --channel preview"],
  async run(context, { project, channel = "production", span = figureSpanDefault }) {
    const target = await resolveTarget(context, project);
    const api = await context.api();
    const reply = await api.get(`/projects/${target.id}/analytics?span=${span}&channel=${channel}`, analyticsReply);
    return { project: targetFacts(target), analytics: reply.analytics };
  },
  render: ({ analytics: view }, screen) => {
    const { s2xx, s3xx, s4xx, s5xx } = view.statuses;
    if (s2xx + s3xx + s4xx + s5xx === 0) return `No visits on ${view.channel} in this span (${view.span})`;
    const { paint } = screen;
    return [
      `Requests on ${view.channel}, ${view.span}: ${s2xx} of 2xx, ${s3xx} of 3xx, ${s4xx} of 4xx, ${s5xx} of 5xx`,
      ...(view.sampled ? [paint("dim", "Some page views were too many to look at: others count for them")] : []),
      ...(view.visitors.length === 0 ? [] : ["", visitorChart(view.visitors, screen)]),
      ...Object.entries(lists).flatMap(([list, title]) => {
        const counts = view[list as keyof typeof lists];
        return counts.length === 0 ? [] : ["", countList(title, counts, screen)];
      }),
    ].join("\n");
  },
});

/** A bar for each of the newest days, and above it a line of all days where there are more. */
function visitorChart(visitors: AnalyticsView["visitors"], screen: Screen): string {
  const { paint, columns } = screen;
  const most = Math.max(...visitors.map(({ count }) => count));
  const newest = visitors.slice(-daysMax);
  const rows = newest.map(({ day, count }) => [day, String(count), bar(count / most, barColumns)]);
  const table = listing(["DAY", "VISITORS", ""], rows, screen, { alignRight: [1] });
  const [first] = visitors;
  const last = visitors.at(-1);
  if (first === undefined || last === undefined || newest.length === visitors.length) return table;
  const series = visitors.map(({ day, count }) => ({ bucket: `${day}T00:00:00Z`, count }));
  const range = { first: new Date(first.day), last: new Date(last.day), stepMs: dayMs };
  const line = sparkline(
    fillGaps(series, range, ({ count }) => count, 0),
    Math.min(chartColumnsMax, columns ?? chartColumnsMax),
  );
  return [
    `Visitors by day, from ${first.day} to ${last.day}`,
    paint("cyan", line),
    "",
    table,
    paint("dim", `and ${visitors.length - newest.length} days before, with --json`),
  ].join("\n");
}

function countList(title: string, counts: AnalyticsView["paths"], screen: Screen): string {
  const rows = counts.slice(0, shownMax).map(({ value, count }) => [value, String(count)]);
  return listing([title, "VIEWS"], rows, screen, { alignRight: [1] });
}
