import { z } from "zod";
import { limits } from "../limits.ts";
import { channel, count, replyObject, success, timestamp } from "./envelope.ts";
import { wholeNumber } from "./query.ts";
import { figureSpanDefault, figureSpans } from "./span.ts";

const span = z.enum(figureSpans);

/** Without a channel it is the whole project. */
export const resourcesQuery = z.strictObject({
  span: span.default(figureSpanDefault),
  channel: channel.exactOptional(),
});

/** `hours` is another way to say how far back, in hours; where both are given it is `span`. */
export const metricsQuery = z.strictObject({
  span: span.exactOptional(),
  hours: wholeNumber(1, limits.metricsHoursMax, limits.metricsHoursMax).optional(),
  channel: channel.exactOptional(),
});
export type MetricsQuery = z.output<typeof metricsQuery>;

const bucketSize = z.enum(["hour", "day"]);
export type BucketSize = z.output<typeof bucketSize>;
const statuses = { s2xx: count, s3xx: count, s4xx: count, s5xx: count };

/** `bucket` is when the hour or day (UTC) begins. Oldest first; those in which nobody asked for anything are left out. */
export const metricsSchema = replyObject({
  bucketSize,
  totalRequests: count,
  totalBytesIn: count,
  totalBytesOut: count,
  totalStatuses: replyObject(statuses),
  series: z.array(replyObject({ bucket: timestamp, count, bytesIn: count, bytesOut: count, ...statuses })),
});
export type Metrics = z.output<typeof metricsSchema>;
export const metricsReply = success({ metrics: metricsSchema });

/** Processor in percent of one core; of all containers together. `samples` is how often they were looked at. */
const resourcesPoint = replyObject({
  bucket: timestamp,
  cpuPctAvg: z.number().min(0),
  cpuPctMax: z.number().min(0),
  memBytesAvg: count,
  memBytesMax: count,
  samples: count,
});
export type ResourcesPoint = z.output<typeof resourcesPoint>;

/** `current` is what runs now, and null when nothing does. `limits` are of one container. */
export const resourcesSchema = replyObject({
  bucketSize,
  series: z.array(resourcesPoint),
  current: resourcesPoint.nullable(),
  disk: replyObject({ staticBytes: count, imageBytes: count }),
  limits: replyObject({ memoryMb: count, cpuMillicores: count, pidsLimit: count, storageMb: count }),
});
export type Resources = z.output<typeof resourcesSchema>;
export const resourcesReply = success({ resources: resourcesSchema });
