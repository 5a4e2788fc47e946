import { z } from "zod";
import { taskKinds } from "../kinds.ts";
import { deploymentStatuses, nodeStatuses } from "../lifecycle.ts";
import { channel, count, id, replyObject, success, timestamp } from "./envelope.ts";

export const explainPlacementQuery = z.strictObject({ deployment: id });
export type ExplainPlacementQuery = z.output<typeof explainPlacementQuery>;

const nodeName = replyObject({ id, name: z.string() });
const problem = replyObject({
  reason: z.string(),
  // What is asked for, and what the node has of it: MiB, millicores, or text. Null where the reason says it all.
  wanted: z.union([z.string(), z.number()]).nullable(),
  found: z.union([z.string(), z.number()]).nullable(),
});

/** Whether a node would take one more container of a deployment. */
export const explainedNode = nodeName.extend({
  status: z.enum(nodeStatuses),
  fits: z.boolean(),
  // Every reason why not; empty when it fits.
  problems: z.array(problem),
  // Where it says it is; null when nobody does.
  zone: z.string().nullable(),
  // How many it has already: it gets another one only when no node without one fits.
  replicas: count,
  // The highest total is taken; null when it does not fit.
  score: replyObject({
    ...{ total: z.number(), fit: z.number(), image: z.number(), zone: z.number() },
    // Below 0 where containers of the project failed again and again of late.
    failures: z.number(),
  }).nullable(),
});
export type ExplainedNode = z.output<typeof explainedNode>;

export const explainedTask = replyObject({
  kind: z.enum(taskKinds),
  // Which replica it is, from 0.
  replica: count,
  // Null while it waits for one.
  node: nodeName.nullable(),
  // What its node said of it last; null before it said anything.
  observed: z.string().nullable(),
  health: z.string().nullable(),
  // Another one takes its place.
  retiring: z.boolean(),
  createdAt: timestamp,
  // Why it waits, or keeps other limits than the plan's; null when all is well.
  problem: z.string().nullable(),
});
export type ExplainedTask = z.output<typeof explainedTask>;

/** Where a deployment's containers are, why the others wait, and what every node says to one more. */
export const explainPlacementReply = success({
  deployment: replyObject({ id, projectId: id, channel, status: z.enum(deploymentStatuses), replicas: count }),
  // What is set aside for one more: by the plan, or for a build while there is nothing to serve.
  request: replyObject({
    kind: z.enum(taskKinds),
    memoryMb: count,
    cpuMillicores: count,
    pidsLimit: count,
    platform: replyObject({ os: z.string(), architecture: z.string() }).nullable(),
    nodeSelector: z.record(z.string(), z.string()),
  }),
  tasks: z.array(explainedTask),
  // The highest score first, then those that do not fit by name. Machines that were fenced or removed are not among them.
  nodes: z.array(explainedNode),
  // False from a replica that does not lead: only the leader knows what failed of late, so scores are without that.
  failuresKnown: z.boolean(),
});
export type ExplainPlacementReply = z.output<typeof explainPlacementReply>;
