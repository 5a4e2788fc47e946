import { z } from "zod";
import { limits } from "../limits.ts";
import { channel, count, replyObject, success } from "./envelope.ts";
import { figureSpanDefault, figureSpans } from "./span.ts";

export const analyticsQuery = z.strictObject({
  span: z.enum(figureSpans).default(figureSpanDefault),
  channel: channel.default("production"),
});

const list = z.array(replyObject({ value: z.string(), count })).max(limits.analyticsEntriesMax);

/** Of page views, each list the most frequent first. `visitors` are nearly as many as there were, and none of a day without. */
export const analyticsView = replyObject({
  span: z.enum(figureSpans),
  channel,
  /** Some page views were not looked at, and others count for them. */
  sampled: z.boolean(),
  paths: list,
  /** Hosts. */
  referrers: list,
  /** ISO 3166-1 alpha-2; empty where edges have no file of countries. */
  countries: list,
  devices: list,
  browsers: list,
  operatingSystems: list,
  /** Of all requests. */
  statuses: replyObject({ s2xx: count, s3xx: count, s4xx: count, s5xx: count }),
  visitors: z.array(replyObject({ day: z.iso.date(), count })),
});
export type AnalyticsView = z.output<typeof analyticsView>;

export const analyticsReply = success({ analytics: analyticsView });
