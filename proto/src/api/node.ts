import { z } from "zod";
import { edgePhases, runKinds, taskKinds } from "../kinds.ts";
import { nodeActions, nodeDrains, nodeLinks, nodeStatuses } from "../lifecycle.ts";
import { limits } from "../limits.ts";
import { isOneLine } from "../text.ts";
import { channel, count, id, nothingSent, replyObject, success, timestamp } from "./envelope.ts";
import { nodeLabelName, nodeLabelValue } from "./node-label.ts";

export const daemonRoles = ["node", "edge"] as const;
export type DaemonRoleName = (typeof daemonRoles)[number];

const labels = z.record(z.string(), z.string());
const resources = { memoryMb: count, cpuMillicores: count, pids: count };

/** How far a node has been emptied. */
export const nodeDrain = replyObject({
  state: z.enum(nodeDrains),
  // Null when nobody asked for a drain. An edge that is drained at once has no deadline.
  startedAt: timestamp.nullable(),
  deadline: timestamp.nullable(),
  // Placements and commands on it that are not over.
  remaining: count,
});

/** What a drain still waits for, by what has to happen. Those of `blockerCodes` wait for a person. */
export const blockerWaits = [
  "turn",
  "node",
  "start",
  "edges",
  "requests",
  "build",
  "release",
  "job",
  "deploy",
  "stop",
  "move",
  "fence",
] as const;
export type BlockerWait = (typeof blockerWaits)[number];
export const blockerCodes = ["NODE_CAPACITY_UNAVAILABLE", "ROUTE_DIVERGED", "NODE_FENCE_REQUIRED"] as const;
export type BlockerCode = (typeof blockerCodes)[number];

/** One thing that keeps a node from being empty. */
export const nodeBlocker = replyObject({
  kind: z.enum([...taskKinds, ...runKinds]),
  project: z.string(),
  channel,
  prNumber: count.nullable(),
  // Null for what has no replicas.
  replica: count.nullable(),
  waitsFor: z.enum(blockerWaits),
  // Set when time alone may not help.
  code: z.enum(blockerCodes).nullable(),
  why: z.string(),
});
export type NodeBlocker = z.output<typeof nodeBlocker>;

/** What is known of an edge's visitors. */
export const nodeEdge = replyObject({
  // Whether deployments wait for it. A new edge is out until it is whole, and whoever cordons or drains one takes it out.
  inRotation: z.boolean(),
  // Null while it has not said.
  phase: z.enum(edgePhases).nullable(),
  // What it does not have yet of what visitors need; null: it is whole, or has not said.
  lacks: z.string().nullable(),
  // Why `GET /_svc/edge` answers 503; null: it answers 200, or the edge has not said.
  unready: z.string().nullable(),
});
export type NodeEdge = z.output<typeof nodeEdge>;

/** A machine of the fleet, safe to show to administrators: no address of a tenant's task, no identity material. */
export const nodeListItem = replyObject({
  id,
  name: z.string(),
  role: z.enum(daemonRoles),
  status: z.enum(nodeStatuses),
  // How control is connected with it, and since when, as far as it has seen.
  link: replyObject({ state: z.enum(nodeLinks), since: timestamp }),
  // Null when the daemon has not been seen yet.
  lastSeenAt: timestamp.nullable(),
  version: z.string().nullable(),
  // Null for edges, which take no work.
  capacity: replyObject({ ...resources, diskMb: count }).nullable(),
  // What is set aside for what it runs, of its capacity.
  allocated: replyObject(resources).nullable(),
  // Too little room on its disks for new work.
  diskFull: z.boolean(),
  // Too little memory is really left for new work, whatever is set aside; absent from an older control.
  memoryShort: z.boolean().optional(),
  // Its container engine does not answer: what runs may run on, and nothing new is placed.
  engineStalled: z.boolean(),
  // Why its container engine must not build Dockerfiles of users; null when it does.
  dockerfileProblem: z.string().nullable(),
  // Why a daemon with its identity was turned away, the last time; null once one was let in again.
  refusal: z.string().nullable(),
  runningPlacements: count,
  // What operators set, and what it says of itself where they say nothing.
  labels,
  zone: z.string().nullable(),
  drain: nodeDrain,
  // Null for nodes; absent from an older control.
  edge: nodeEdge.nullable().optional(),
  // What the operator said who cordoned, drained or fenced it.
  reason: z.string().nullable(),
});
export type NodeListItem = z.output<typeof nodeListItem>;

/** Something that runs on a node, or ran and is still there. */
export const nodePlacement = replyObject({
  kind: z.enum(taskKinds),
  project: z.string(),
  channel,
  prNumber: count.nullable(),
  replica: count,
  // What its node said last; "placed" before it said anything.
  state: z.string(),
  // Null for what is not asked, such as builds.
  health: z.string().nullable(),
  since: timestamp.nullable(),
});
export type NodePlacement = z.output<typeof nodePlacement>;

/** Something that happened to a machine. */
export const nodeEvent = replyObject({ at: timestamp, kind: z.string(), detail: z.string().nullable() });
export type NodeEvent = z.output<typeof nodeEvent>;

export const nodeDetail = nodeListItem.extend({
  platform: replyObject({ os: z.string(), architecture: z.string() }).nullable(),
  schedulable: z.boolean(),
  // What its containers really take, as it said in the last minute; null when it did not. Absent from an older control.
  used: replyObject({ memoryMb: count, cpuMillicores: count }).nullable().optional(),
  // Those of its labels that operators set: plans choose nodes by these alone.
  operatorLabels: labels,
  createdAt: timestamp,
  certificateExpiresAt: timestamp.nullable(),
  drain: nodeDrain.extend({ blockers: z.array(nodeBlocker) }),
  placements: z.array(nodePlacement),
  // Newest first.
  events: z.array(nodeEvent),
  // What may be done with it now.
  actions: z.array(z.enum(nodeActions)),
});
export type NodeDetail = z.output<typeof nodeDetail>;

export const nodeListReply = success({ nodes: z.array(nodeListItem) });
export type NodeListReply = z.output<typeof nodeListReply>;
export const nodeReply = success({ node: nodeDetail });
export type NodeReply = z.output<typeof nodeReply>;

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
/** How long a drain may take before it says that it needs help, in seconds; and whether databases are moved, one at a time. */
export const drainNodeInput = nodeActionInput.extend({
  moveDatabases: z.boolean().exactOptional(),
  deadlineSeconds: z.int().min(limits.drainSecondsMin).max(limits.drainSecondsMax).exactOptional(),
});
export type DrainNodeInput = z.output<typeof drainNodeInput>;
export const nodeActionReply = success({
  queued: z.boolean(),
  action: z.enum(nodeActions),
  node: replyObject({ id, name: z.string(), status: z.enum(nodeStatuses) }),
  jobId: z.string().optional(),
});
export type NodeActionReply = z.output<typeof nodeActionReply>;

/** Labels that operators give a machine; null takes one away, and what is left out stays. */
export const labelNodeInput = z.strictObject({
  labels: z
    .record(nodeLabelName, nodeLabelValue.nullable())
    .refine((change) => Object.keys(change).length > 0, nothingSent)
    .refine(
      (change) => Object.keys(change).length <= limits.nodeLabelsMax,
      `has more than ${limits.nodeLabelsMax} labels`,
    )
    .meta({ minProperties: 1, maxProperties: limits.nodeLabelsMax }),
});
export type LabelNodeInput = z.output<typeof labelNodeInput>;
export const labelNodeReply = success({
  node: replyObject({ id, name: z.string(), labels, operatorLabels: labels }),
});
export type LabelNodeReply = z.output<typeof labelNodeReply>;

/** Addresses at which edges may be sent to a machine, whichever of them it says is its own. */
const nodeAddresses = z.array(z.ipv4()).min(1).max(limits.nodeAddressesMax);

/** In place of those that the machine had: its agent has one of them from its next session on. */
export const addressNodeInput = z.strictObject({ addresses: nodeAddresses });
export type AddressNodeInput = z.output<typeof addressNodeInput>;
export const addressNodeReply = success({ node: replyObject({ id, name: z.string() }) });
export type AddressNodeReply = z.output<typeof addressNodeReply>;

/** Lets one daemon join, once. `expiresIn` in seconds. */
export const createBootstrapTokenInput = z.strictObject({
  role: z.enum(daemonRoles).default("node"),
  // Of a node; unless given the one that it joins from.
  addresses: nodeAddresses.exactOptional(),
  expiresIn: z.int().min(60).max(limits.bootstrapTokenSecondsMax).default(limits.bootstrapTokenSecondsDefault),
});
export type CreateBootstrapTokenInput = z.output<typeof createBootstrapTokenInput>;

/** `token` is in this reply and nowhere else, ever. */
export const createBootstrapTokenReply = success({
  bootstrapToken: replyObject({ id: z.string(), token: z.string(), expiresAt: timestamp }),
});
export type CreateBootstrapTokenReply = z.output<typeof createBootstrapTokenReply>;

/** A token without what it is: that was shown once. */
export const bootstrapToken = replyObject({
  id: z.string(),
  role: z.enum(daemonRoles),
  status: z.enum(["open", "used", "expired", "revoked"]),
  createdAt: timestamp,
  expiresAt: timestamp,
  usedAt: timestamp.nullable(),
  revokedAt: timestamp.nullable(),
  // What joined with it.
  node: replyObject({ id, name: z.string() }).nullable(),
});
export type BootstrapToken = z.output<typeof bootstrapToken>;
export const bootstrapTokensReply = success({ bootstrapTokens: z.array(bootstrapToken) });
export type BootstrapTokensReply = z.output<typeof bootstrapTokensReply>;

export const bootstrapTokenParams = z.strictObject({ id: z.string().regex(/^[0-9a-f]{16}$/, "is not a token's id") });
export const deleteBootstrapTokenReply = success({
  id: z.string(),
  // What had joined with it, and stays; null when nothing had.
  node: replyObject({ id, name: z.string() }).nullable().optional(),
});
