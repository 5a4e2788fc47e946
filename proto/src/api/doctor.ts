import { z } from "zod";
import { count, replyObject, success, timestamp } from "./envelope.ts";

/** What an operator's doctor looks at, in the order in which it is shown. */
export const operatorCheckNames = [
  "leader",
  "etcd",
  "postgres",
  "registry",
  "clocks",
  "certificates",
  "secrets",
  "versions",
  "nodes",
  "disk",
  "edges",
  "placements",
  "work",
  "databases",
  "domains",
  "jobs",
] as const;
export type OperatorCheckName = (typeof operatorCheckNames)[number];

/** warn: works, and needs somebody before long. fail: something does not work, or could not be looked at. */
export const operatorCheckStatuses = ["ok", "warn", "fail"] as const;
export type OperatorCheckStatus = (typeof operatorCheckStatuses)[number];

/** `detail` is the worst that was found as a sentence, `hint` what to do about it, `more` everything else that was. */
export const operatorCheck = replyObject({
  name: z.enum(operatorCheckNames),
  status: z.enum(operatorCheckStatuses),
  detail: z.string(),
  hint: z.string().nullable(),
  more: z.array(z.string()),
});
export type OperatorCheck = z.output<typeof operatorCheck>;

/** `healthy` is true when no check failed; warnings do not count. */
export const doctorReply = success({
  healthy: z.boolean(),
  at: timestamp,
  answeredInMs: count,
  checks: z.array(operatorCheck),
});
export type DoctorReply = z.output<typeof doctorReply>;
