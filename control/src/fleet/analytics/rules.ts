// @pure

import type { Channel } from "@svc/proto";
import type { AnalyticsCount, AnalyticsRow } from "@svc/proto/edge";
import { decodeUniques } from "@svc/proto/uniques";
import { uuid } from "../../stores/db/uuid.ts";
import { type AnalyticsData, type AnalyticsList, analyticsLists, type Counted } from "./data.ts";

/** One hour of a channel as one edge counted it, as the database takes it. */
export interface AnalyticsHour {
  series: string;
  seq: number;
  projectId: string;
  channel: Channel;
  /** Its start. */
  hour: Date;
  data: AnalyticsData;
  visitors: Uint8Array;
}

const hourMs = 3_600_000;
export const dayMs = 24 * hourMs;

/** An edge that was cut off for longer than this tells history, and one whose clock is ahead tells tales. */
const oldestMs = 7 * dayMs;
const aheadMs = 2 * hourMs;
/** Days before today, until hours go. A day whose hours may still change has all of them. */
export const hoursKeptDays = 8;

/** Twice what a router puts into a message. */
export const rowsMax = 200;
/** What a router lists, and then some. */
const valuesMax: Readonly<Record<AnalyticsList, number>> = {
  paths: 256,
  referrers: 128,
  countries: 256,
  devices: 32,
  browsers: 64,
  operatingSystems: 64,
};
const valueBytesMax = 200;
/** More than any edge answers in an hour: 19 million a second. */
const countMax = 2n ** 36n;

const channels: ReadonlySet<string> = new Set<Channel>(["production", "preview", "dev"]);
const isChannel = (text: string): text is Channel => channels.has(text);

/** Null for a row that makes no sense, and nothing can be done about that. */
export function analyticsHour(row: AnalyticsRow, now: Date): AnalyticsHour | null {
  const { series, seq, projectId, channel, visitors } = row;
  if (!uuid.test(series) || !uuid.test(projectId) || !isChannel(channel)) return null;
  if (seq > BigInt(Number.MAX_SAFE_INTEGER) || decodeUniques(visitors) === null) return null;
  const at = Number(row.hour) * hourMs;
  if (!(at >= now.getTime() - oldestMs && at <= now.getTime() + aheadMs)) return null;
  const statuses = [row.status2xx, row.status3xx, row.status4xx, row.status5xx];
  if (statuses.some((count) => count > countMax)) return null;
  const [s2xx = 0, s3xx = 0, s4xx = 0, s5xx = 0] = statuses.map(Number);
  const lists = analyticsLists.map((list) => [list, countsOf(row[list], valuesMax[list])]);
  if (lists.some(([, counts]) => counts === null)) return null;
  const data = { sampled: row.sampled, s2xx, s3xx, s4xx, s5xx, ...Object.fromEntries(lists) };
  return { series, seq: Number(seq), projectId, channel, hour: new Date(at), data, visitors };
}

/** Null when there are too many, or one is not as routers write them. */
function countsOf(counts: readonly AnalyticsCount[], max: number): Counted[] | null {
  if (counts.length > max) return null;
  const isFit = ({ value, count }: AnalyticsCount) =>
    value !== "" && Buffer.byteLength(value) <= valueBytesMax && !/\p{C}/u.test(value) && count <= countMax;
  if (!counts.every(isFit)) return null;
  return counts.filter(({ count }) => count > 0n).map(({ value, count }) => [value, Number(count)]);
}

/** Those of a message that make sense, each once, up to `rowsMax`: what one edge can say has a bound, whoever speaks for it. */
export function analyticsHours(rows: readonly AnalyticsRow[], now: Date): AnalyticsHour[] {
  const bySeries = new Map<string, AnalyticsHour>();
  for (const row of rows.slice(0, rowsMax)) {
    const hour = analyticsHour(row, now);
    if (hour !== null && !bySeries.has(hour.series)) bySeries.set(hour.series, hour);
  }
  return [...bySeries.values()];
}

/** YYYY-MM-DD, UTC. */
export const dayOf = (at: Date): string => at.toISOString().slice(0, 10);

/** So long after its day an edge may still meet lines of it. */
export const saltOutlivesDayMs = 2 * hourMs;
/** How many days edges go on alone. */
const saltsAheadDays = 7;

/** Days that have a salt at this moment, oldest first. */
export function daysWithSalt(now: Date): string[] {
  const first = now.getTime() - saltOutlivesDayMs;
  const last = now.getTime() + saltsAheadDays * dayMs;
  const days: string[] = [];
  for (let at = Math.floor(first / dayMs) * dayMs; at <= last; at += dayMs) days.push(dayOf(new Date(at)));
  return days;
}
