// @pure
import { type AnalyticsView, type FigureSpan, figureSpanHours, limits } from "@svc/proto";
import { type AnalyticsData, addUp } from "../../fleet/analytics/data.ts";
import { dayMs, dayOf } from "../../fleet/analytics/rules.ts";

const hourMs = 3_600_000;

/** What is read for a span: hours, and in the place of all hours of a day that is over the day. */
export interface Reading {
  /** From the first on; with an end that it is before. */
  hours: { from: Date; before: Date | null }[];
  /** YYYY-MM-DD; null: none, or from the first one there is. */
  days: { from: string | null; before: string } | null;
}

/** Days are added up soon after they are over, so yesterday is still read by the hour. */
export function readingOf(span: FigureSpan, now: Date): Reading {
  const today = Math.floor(now.getTime() / dayMs) * dayMs;
  const recent = today - dayMs;
  const latest = { from: new Date(recent), before: null };
  const before = dayOf(latest.from);
  if (span === "all") return { hours: [latest], days: { from: null, before } };
  const since = now.getTime() - figureSpanHours[span] * hourMs;
  // The first hour or day is the one that ends after the span has begun.
  if (span === "90d") return { hours: [latest], days: { from: dayOf(new Date(since)), before } };
  const first = Math.floor(since / hourMs) * hourMs;
  if (first >= recent) return { hours: [{ from: new Date(first), before: null }], days: null };
  const whole = new Date(Math.ceil(first / dayMs) * dayMs);
  return { hours: [{ from: new Date(first), before: whole }, latest], days: { from: dayOf(whole), before } };
}

/** What somebody is shown of it. */
export function analyticsOf(
  of: Pick<AnalyticsView, "span" | "channel">,
  read: readonly AnalyticsData[],
  visitors: ReadonlyMap<string, number>,
): AnalyticsView {
  const { sampled, s2xx, s3xx, s4xx, s5xx, ...lists } = addUp(read, limits.analyticsEntriesMax, false);
  const shown = Object.entries(lists).map(([list, counts]) => [
    list,
    counts.map(([value, count]) => ({ value, count })),
  ]);
  const days = [...visitors].filter(([, count]) => count > 0).sort(([a], [b]) => (a < b ? -1 : 1));
  return {
    ...{ ...of, sampled, statuses: { s2xx, s3xx, s4xx, s5xx } },
    ...(Object.fromEntries(shown) as Pick<AnalyticsView, keyof typeof lists>),
    visitors: days.map(([day, count]) => ({ day, count })),
  };
}
