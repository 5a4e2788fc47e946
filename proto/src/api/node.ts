import { z } from "zod";
import { nodeActions, nodeStatuses } from "../lifecycle.ts";
import { limits } from "../limits.ts";
import { isOneLine } from "../text.ts";
import { count, id, replyObject, success, timestamp } from "./envelope.ts";

export const daemonRoles = ["node", "edge"] as const;
export type DaemonRoleName = (typeof daemonRoles)[number];

const resources = replyObject({ memoryMb: count, cpuMillicores: count });

/** A machine of the fleet, safe to show to administrators: no address of a tenant's task, no identity material. */
export const nodeListItem = replyObject({
  id,
  name: z.string(),
  role: z.enum(daemonRoles),
  status: z.enum(nodeStatuses),
  // Null when the daemon has not been seen yet.
  lastSeenAt: timestamp.nullable(),
  version: z.string().nullable(),
  // Null for edges, which take no work.
  capacity: resources.nullable(),
  allocated: resources.nullable(),
  runningPlacements: count,
  labels: z.record(z.string(), z.string()),
});
export type NodeListItem = z.output<typeof nodeListItem>;

export const nodeDetail = nodeListItem.extend({
  platform: replyObject({ os: z.string(), architecture: z.string() }).nullable(),
  schedulable: z.boolean(),
  reason: z.string().nullable(),
  createdAt: timestamp,
  certificateExpiresAt: timestamp.nullable(),
  // What may be done with it now.
  actions: z.array(z.enum(nodeActions)),
});
export type NodeDetail = z.output<typeof nodeDetail>;

export const nodeListReply = success({ nodes: z.array(nodeListItem) });
export type NodeListReply = z.output<typeof nodeListReply>;
export const nodeReply = success({ node: nodeDetail });
export type NodeReply = z.output<typeof nodeReply>;

export const nodeActionParams = z.strictObject({ id, action: z.enum(nodeActions) });
export const nodeActionInput = z.strictObject({
  reason: z
    .string()
    .min(1)
    .max(limits.nodeReasonLengthMax)
    .refine(isOneLine, "contains control characters")
    .exactOptional(),
  confirm: z.boolean().exactOptional(),
});
export type NodeActionInput = z.output<typeof nodeActionInput>;
export const nodeActionReply = success({
  queued: z.boolean(),
  action: z.enum(nodeActions),
  node: replyObject({ id, name: z.string(), status: z.enum(nodeStatuses) }),
  jobId: z.string().optional(),
});
export type NodeActionReply = z.output<typeof nodeActionReply>;

/** Lets one daemon join, once. `expiresIn` in seconds. */
export const createBootstrapTokenInput = z.strictObject({
  role: z.enum(daemonRoles).default("node"),
  expiresIn: z.int().min(60).max(limits.bootstrapTokenSecondsMax).default(limits.bootstrapTokenSecondsDefault),
});
export type CreateBootstrapTokenInput = z.output<typeof createBootstrapTokenInput>;

/** `token` is in this reply and nowhere else, ever. */
export const createBootstrapTokenReply = success({
  bootstrapToken: replyObject({ id: z.string(), token: z.string(), expiresAt: timestamp }),
});
export type CreateBootstrapTokenReply = z.output<typeof createBootstrapTokenReply>;

export const bootstrapTokenParams = z.strictObject({ id: z.string().regex(/^[0-9a-f]{16}$/, "is not a token's id") });
export const deleteBootstrapTokenReply = success({ id: z.string() });
