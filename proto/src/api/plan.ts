import { z } from "zod";
import { limits } from "../limits.ts";
import { count, id, nothingSent, replyObject, success, timestamp } from "./envelope.ts";
import { displayName } from "./name.ts";
import { nodeLabelName, nodeLabelValue } from "./node-label.ts";

/** Every number of a plan. Null is "no limit"; MB are MiB. */
const planNumbers = {
  memoryMb: z.int().min(32).max(1_048_576),
  cpuMillicores: z.int().min(10).max(1_024_000),
  pidsLimit: z.int().min(16).max(65_536),
  // What is set aside on a node for each container, of what it may take; more than that never is.
  reservedMemoryMb: z.int().min(16).max(1_048_576),
  reservedCpuMillicores: z.int().min(1).max(1_024_000),
  maxProjects: z.int().min(0).max(1_000_000),
  maxDeploysPerHour: z.int().min(0).max(1_000_000),
  maxUploadMb: z.int().min(1).max(10_240),
  // 0 turns container images off.
  maxImageMb: z.int().min(0).max(102_400),
  maxEnvVars: z.int().min(0).max(limits.envVarsPerPlanMax),
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
  maxReplicas: z.int().min(1).max(limits.replicasMax),
  maxDrainSeconds: z.int().min(0).max(limits.appDrainSecondsMax),
} as const;

const planNames = {
  slug: z
    .string()
    .min(1)
    .max(40)
    .regex(/^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/, "has only lower-case letters, digits and hyphens"),
  name: displayName(100),
} as const;

/**
 * Labels that every node has to have, by its operators, which runs what accounts with the plan build and serve; {}: any
 * node will do.
 */
const nodeSelector = z
  .record(nodeLabelName, nodeLabelValue)
  .refine(
    (labels) => Object.keys(labels).length <= limits.nodeSelectorLabelsMax,
    `has more than ${limits.nodeSelectorLabelsMax} labels`,
  )
  .meta({ maxProperties: limits.nodeSelectorLabelsMax });

const planLimits = {
  isDefault: z.boolean(),
  nodeSelector,
  devSyncEnabled: z.boolean(),
  previewsEnabled: z.boolean(),
  ...planNumbers,
} as const;

const planFields = { ...planNames, ...planLimits } as const;

/** A plan as users see it: the whole row without its internal id. `databaseEnabled` is `maxDatabases > 0`. */
export const planSchema = replyObject({
  ...planFields,
  // Absent from an older control.
  reservedMemoryMb: planNumbers.reservedMemoryMb.optional(),
  reservedCpuMillicores: planNumbers.reservedCpuMillicores.optional(),
  databaseEnabled: z.boolean(),
  createdAt: timestamp,
  updatedAt: timestamp,
});
export type Plan = z.output<typeof planSchema>;

/** What creates a plan. What is left out is as in the plan that is the default then, and it is not the default itself. */
export const createPlanInput = z.strictObject({ ...planNames, ...z.object(planLimits).partial().shape });
export type CreatePlanInput = z.output<typeof createPlanInput>;

const toldOnly = z.unknown().meta({ readOnly: true }).exactOptional();

/** What a plan's reply tells and nobody sets: a plan that is sent back as it was read may hold it, and it is passed over. */
const planTold = {
  id: toldOnly,
  databaseEnabled: toldOnly,
  userCount: toldOnly,
  createdAt: toldOnly,
  updatedAt: toldOnly,
} as const;

/** What changes a plan: any of its fields. What is left out stays. */
export const updatePlanInput = z
  .strictObject({ ...z.object(planFields).partial().shape, ...planTold })
  .transform(({ id: _, databaseEnabled: __, userCount: ___, createdAt: ____, updatedAt: _____, ...fields }) => fields)
  .refine((fields) => Object.keys(fields).length > 0, nothingSent);
export type UpdatePlanInput = z.output<typeof updatePlanInput>;

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
export type AdminPlan = z.output<typeof adminPlan>;
export const adminPlansReply = success({ plans: z.array(adminPlan) });
export const adminPlanReply = success({ plan: adminPlan });
export const deletePlanReply = success({ id });
export const userPlanInput = z.strictObject({ plan: z.string().min(1) });
export const userPlanReply = success({ id: z.string(), plan: z.string() });
