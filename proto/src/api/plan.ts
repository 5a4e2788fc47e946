import { z } from "zod";
import { limits } from "../limits.ts";
import { isOneLine } from "../text.ts";
import { count, id, replyObject, success, timestamp } from "./envelope.ts";

/** Every number of a plan. Null is "no limit"; MB are MiB. */
const planNumbers = {
  memoryMb: z.int().min(32).max(1_048_576),
  cpuMillicores: z.int().min(10).max(1_024_000),
  pidsLimit: z.int().min(16).max(65_536),
  maxProjects: z.int().min(0).max(1_000_000),
  maxDeploysPerHour: z.int().min(0).max(1_000_000),
  maxUploadMb: z.int().min(1).max(10_240),
  // 0 turns container images off.
  maxImageMb: z.int().min(0).max(102_400),
  maxEnvVars: z.int().min(0).max(limits.envKeysPerRequestMax),
  rateLimitPerMinute: z.int().min(1).max(1_000_000).nullable(),
  monthlyRequests: z.int().min(0).nullable(),
  monthlyBandwidthMb: z.int().min(0).nullable(),
  storageMb: z.int().min(1).max(10_485_760),
  dbSizeMb: z.int().min(0).max(10_485_760),
  dbConnectionLimit: z.int().min(0).max(10_000),
  // 0 turns managed databases off.
  maxDatabases: z.int().min(0).max(1_000_000),
  maxBackups: z.int().min(0).max(10_000),
  maxSseConnections: z.int().min(0).max(1000),
  maxScheduledJobs: z.int().min(0).max(limits.jobsMax),
  maxCustomDomains: z.int().min(0).max(1000),
} as const;

const planFields = {
  slug: z
    .string()
    .min(1)
    .max(40)
    .regex(/^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/, "has only lower-case letters, digits and hyphens"),
  name: z.string().min(1).max(100).refine(isOneLine, "contains control characters"),
  isDefault: z.boolean(),
  devSyncEnabled: z.boolean(),
  previewsEnabled: z.boolean(),
  ...planNumbers,
} as const;

/** A plan as users see it: the whole row without its internal id. `databaseEnabled` is `maxDatabases > 0`. */
export const planSchema = replyObject({
  ...planFields,
  databaseEnabled: z.boolean(),
  createdAt: timestamp,
  updatedAt: timestamp,
});
export type Plan = z.output<typeof planSchema>;

/** What creates or replaces a plan. */
export const planInput = z.strictObject({ ...planFields, isDefault: planFields.isDefault.default(false) });
export type PlanInput = z.output<typeof planInput>;

/** Windows named monthly are the current calendar month in UTC. */
export const usageSchema = replyObject({
  projects: count,
  monthlyRequests: count,
  monthlyBandwidthMb: z.number().min(0),
  diskBytes: count,
  deploysLastHour: count,
});
export type Usage = z.output<typeof usageSchema>;

export const usageReply = success({ plan: planSchema, usage: usageSchema });
export type UsageReply = z.output<typeof usageReply>;

/** A plan as administrators see it. */
export const adminPlan = planSchema.extend({ id, userCount: count });
export const adminPlansReply = success({ plans: z.array(adminPlan) });
export const adminPlanReply = success({ plan: adminPlan });
export const userPlanInput = z.strictObject({ plan: z.string().min(1).max(40) });
export const userPlanReply = success({ id: z.string(), plan: z.string() });
