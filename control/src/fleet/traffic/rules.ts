// @pure

import type { Channel } from "@svc/proto";
import type { TrafficCount } from "@svc/proto/edge";
import { uuid } from "../../stores/db/uuid.ts";

/** What one project's channel got within one hour, as the database takes it. */
export interface TrafficRow {
  projectId: string;
  channel: Channel;
  /** Its start. */
  hour: Date;
  requests: number;
  bytesIn: number;
  bytesOut: number;
  s2xx: number;
  s3xx: number;
  s4xx: number;
  s5xx: number;
  /** Whether it counts towards the owner's quota. */
  metered: boolean;
}

const hourMs = 3_600_000;
/** An edge that was cut off for longer than this tells history, and one whose clock is ahead tells tales. */
const oldestMs = 40 * 24 * hourMs;
const aheadMs = 2 * hourMs;

/** More than any edge moves in an hour: 64 TiB, some 150 Gbit/s. */
const bytesMax = 2n ** 46n;
/** More than any edge answers in an hour: 19 million a second. */
const requestsMax = 2n ** 36n;
/** Twice what a router puts into a batch. */
export const rowsMax = 20_000;

const channels: ReadonlySet<string> = new Set<Channel>(["production", "preview", "dev"]);
const isChannel = (text: string): text is Channel => channels.has(text);

export const isSeries = (text: string): boolean => uuid.test(text);

/** The row of a count; null when it makes no sense, and nothing can be done about that. */
export function trafficRow(count: TrafficCount, now: Date): TrafficRow | null {
  const { projectId, channel, hour } = count;
  const { requests, status2xx, status3xx, status4xx, status5xx } = count;
  if ([count.bytesIn, count.bytesOut].some((bytes) => bytes > bytesMax)) return null;
  if ([requests, status2xx, status3xx, status4xx, status5xx].some((times) => times > requestsMax)) return null;
  const numbers = {
    requests: Number(requests),
    bytesIn: Number(count.bytesIn),
    bytesOut: Number(count.bytesOut),
    s2xx: Number(status2xx),
    s3xx: Number(status3xx),
    s4xx: Number(status4xx),
    s5xx: Number(status5xx),
  };
  const at = Number(hour) * hourMs;
  if (!uuid.test(projectId) || !isChannel(channel)) return null;
  if (!(at >= now.getTime() - oldestMs && at <= now.getTime() + aheadMs)) return null;
  return { projectId, channel, hour: new Date(at), ...numbers, metered: !count.unmetered };
}

/**
 * The rows of a batch. A router counts each hour of a channel once in it, so what comes again, what makes no sense, and
 * what is beyond `rowsMax` is left out: what one edge can say has a bound, whoever speaks for it.
 */
export function trafficRows(counts: readonly TrafficCount[], now: Date): TrafficRow[] {
  const rows = new Map<string, TrafficRow>();
  for (const count of counts) {
    if (rows.size === rowsMax) break;
    const row = trafficRow(count, now);
    if (row === null) continue;
    const key = `${row.projectId} ${row.channel} ${row.hour.getTime()} ${row.metered}`;
    if (!rows.has(key)) rows.set(key, row);
  }
  return [...rows.values()];
}
