import { z } from "zod";
import { channels, deploymentStatuses, projectTypes, releaseStatuses } from "../lifecycle.ts";
import { limits } from "../limits.ts";
import { ociManifestSchema, sourceManifestSchema } from "../manifest.ts";
import { isOneLine, utf8Length } from "../text.ts";
import { channel, count, id, replyObject, success, timestamp } from "./envelope.ts";
import { wholeNumber } from "./query.ts";

/** `error` and `skippedReason` are short summaries, never command output. */
export const releaseSummary = replyObject({
  configured: z.boolean(),
  status: z.enum(releaseStatuses),
  startedAt: timestamp.nullable(),
  finishedAt: timestamp.nullable(),
  exitCode: z.int().nullable(),
  error: z.string().nullable(),
  skippedReason: z.string().nullable(),
});
export type ReleaseSummary = z.output<typeof releaseSummary>;

export const sourceSummary = replyObject({
  rootDirectory: z.string(),
  manifestPath: z.string(),
  watchPaths: z.array(z.string()),
});
export type SourceSummary = z.output<typeof sourceSummary>;

/** Digest and platform are null until the image was pulled and inspected. */
export const ociArtifactSchema = replyObject({
  kind: z.literal("oci"),
  requestedReference: z.string(),
  digest: z.string().nullable(),
  os: z.string().nullable(),
  architecture: z.string().nullable(),
});
export type OciArtifact = z.output<typeof ociArtifactSchema>;

/** The built artifact in the cluster's registry, without saying where that is. `platform` is null for static bundles. */
export const portableArtifactSchema = replyObject({
  kind: z.enum(["source", "image", "bundle"]),
  state: z.enum(["pending", "ready", "failed"]),
  digest: z.string().nullable(),
  sizeBytes: count.nullable(),
  platform: z.string().nullable(),
});
export type PortableArtifact = z.output<typeof portableArtifactSchema>;

const placementProblems = ["STALE_NODE_OBSERVATION", "NODE_FENCE_REQUIRED", "NODE_CAPACITY_UNAVAILABLE"] as const;

/**
 * How far the deployment got on the fleet; names no node and no address. `crashing`: a container of it ended by itself
 * and is started again; `failed` of a deployment that serves: none is started any more.
 */
export const placementSummary = replyObject({
  state: z.enum(["pending", "placing", "starting", "running", "crashing", "stopped", "failed"]),
  routeConverged: z.boolean(),
  lastTransitionAt: timestamp.nullable(),
  // What keeps it from being all that it should be, although it may serve; null when nothing does.
  problem: replyObject({ code: z.enum(placementProblems), message: z.string() })
    .nullable()
    .optional(),
});
export type PlacementSummary = z.output<typeof placementSummary>;

/**
 * Ends of a container that should have gone on, with no steady minute between them: how often since when, why the last
 * time, and when it is started again, or was. Null: it is not started any more.
 */
export const crashing = replyObject({
  since: timestamp,
  count,
  lastAt: timestamp,
  reason: z.string(),
  nextStartAt: timestamp.nullable(),
});
export type Crashing = z.output<typeof crashing>;

const deploymentFields = {
  id,
  status: z.enum(deploymentStatuses),
  channel,
  url: z.string(),
  imageRef: z.string().nullable(),
  staticPath: z.string().nullable(),
  // Source projects only; image projects have `artifact` instead.
  sourceSize: count.optional(),
  source: sourceSummary.optional(),
  artifact: ociArtifactSchema.optional(),
  error: z.string().nullable(),
  // Why it may not be what was meant although it is not refused; whole sentences. What a build leaves is looked at after it.
  warnings: z.array(z.string()).optional(),
  // Production was stopped while it was on its way: it is made ready, and serves after a start. Absent otherwise.
  held: z.literal(true).optional(),
  // Of what should run and falls over; null when nothing does. Absent from an older control.
  crashing: crashing.nullable().optional(),
  trigger: z.string().nullable(),
  gitSha: z.string().nullable(),
  gitRef: z.string().nullable(),
  gitRepository: z.string().nullable(),
  gitPrNumber: z.int().nullable(),
  release: releaseSummary,
  screenshotCapturedAt: timestamp.nullable().optional(),
  // Only while the cluster scheduler is on.
  portableArtifact: portableArtifactSchema.optional(),
  placement: placementSummary.optional(),
  createdAt: timestamp,
  startedAt: timestamp.nullable(),
  finishedAt: timestamp.nullable(),
} as const;

export const deploymentListItem = replyObject(deploymentFields);
export type DeploymentListItem = z.output<typeof deploymentListItem>;

/** `manifest` is the command-free snapshot. `errorCode` only of image projects' failures and the fleet's. */
export const deploymentSchema = replyObject({
  ...deploymentFields,
  projectId: id,
  errorCode: z.string().nullable().optional(),
  manifest: z.record(z.string(), z.unknown()),
});
export type Deployment = z.output<typeof deploymentSchema>;

export const deploymentReply = success({ deployment: deploymentSchema });
export type DeploymentReply = z.output<typeof deploymentReply>;

export const deploymentListQuery = z.strictObject({
  channel: channel.exactOptional(),
  status: z.enum(deploymentStatuses).exactOptional(),
  limit: wholeNumber(1, limits.deploymentListMax, limits.deploymentListDefault),
  cursor: z.string().min(1).max(limits.cursorLengthMax).exactOptional(),
});
export const deploymentListReply = success({
  deployments: z.array(deploymentListItem),
  nextCursor: z.string().nullable(),
});
export type DeploymentListReply = z.output<typeof deploymentListReply>;

const attribution = z
  .string()
  .min(1)
  .max(limits.metadataTextLengthMax)
  .refine(isOneLine, "contains control characters");

/** Where a deploy came from, as its sender tells it. It is shown, and grants nothing. */
export const deploymentMetadata = z.strictObject({
  trigger: attribution.max(limits.triggerLengthMax).nullable().exactOptional(),
  gitSha: z
    .string()
    // Both cases by name: the description of the API has patterns and no flags.
    .regex(/^[0-9a-fA-F]{7,64}$/, "is not a commit hash")
    .nullable()
    .exactOptional(),
  gitRef: attribution.nullable().exactOptional(),
  gitRepository: attribution.nullable().exactOptional(),
  gitPrNumber: z.int().min(1).max(2_147_483_647).nullable().exactOptional(),
});
export type DeploymentMetadata = z.output<typeof deploymentMetadata>;

/** A JSON text of at most `maxBytes`, parsed; what it has to be is checked by the schema it is piped into. */
const jsonText = (maxBytes: number) =>
  z.string().transform((text, context): unknown => {
    try {
      if (utf8Length(text) <= maxBytes) return JSON.parse(text);
    } catch {
      // Told below, like a text that is too long.
    }
    context.issues.push({ code: "custom", message: `is not JSON of at most ${maxBytes} bytes`, input: text });
    return z.NEVER;
  });

/** Text parts of the multipart body of a source deployment; the third part is the archive, `source`. */
export const sourceDeploymentFields = z.strictObject({
  manifest: jsonText(limits.manifestBytesMax).pipe(sourceManifestSchema),
  metadata: jsonText(limits.metadataBytesMax).pipe(deploymentMetadata).exactOptional(),
  /** Whether it is built although nothing that decides its build has changed. */
  forceBuild: z
    .enum(["true", "false"])
    .transform((text) => text === "true")
    .exactOptional(),
});
export type SourceDeploymentFields = z.output<typeof sourceDeploymentFields>;

/**
 * Body of an image deployment. With `preserveManifestFromDeploymentId`, settings of that deployment that the
 * manifest here does not name are kept.
 */
export const ociDeploymentInput = z.strictObject({
  manifest: ociManifestSchema,
  metadata: deploymentMetadata.exactOptional(),
  preserveManifestFromDeploymentId: id.exactOptional(),
});
export type OciDeploymentInput = z.output<typeof ociDeploymentInput>;

/** What the caller should know of something that was accepted, as sentences for people. Absent: nothing. */
export const warnings = z.array(z.string()).optional();

export const createDeploymentReply = success({
  deploymentId: id,
  channel,
  url: z.string(),
  project: replyObject({ id, slug: z.string(), type: z.enum(projectTypes) }),
  source: sourceSummary.optional(),
  artifact: ociArtifactSchema.optional(),
  release: releaseSummary,
  warnings,
});
export type CreateDeploymentReply = z.output<typeof createDeploymentReply>;

/** Rollback and promote: the new deployment. */
export const newDeploymentReply = success({
  deploymentId: id,
  channel: channel.optional(),
  url: z.string().optional(),
  warnings,
});
export type NewDeploymentReply = z.output<typeof newDeploymentReply>;

/** It is out of its channel; the rest goes while the caller polls until it is not found. */
export const removeDeploymentReply = success({ deploymentId: id, queued: z.literal(true) });

export const cancelDeploymentReply = success({ deploymentId: id, queued: z.literal(true) });

/** A capture is on its way: `screenshotCapturedAt` changes once it is there. */
export const screenshotReply = success({ queued: z.literal(true) });

/** `after` is a byte offset into the log; what is past its end reads as its end. */
export const logsQuery = z.strictObject({ after: wholeNumber(0, Number.MAX_SAFE_INTEGER, 0) });
/** Send `offset` back as `after` to read on. */
export const logsReply = success({ log: z.string(), offset: count });
export type LogsReply = z.output<typeof logsReply>;

/** One step in a deployment's life. `from` and `to` are statuses, null where the status did not change. */
export const timelineEvent = replyObject({
  at: timestamp,
  phase: z.string(),
  from: z.string().nullable(),
  to: z.string().nullable(),
  detail: z.string().nullable(),
});
export type TimelineEvent = z.output<typeof timelineEvent>;
export const timelineReply = success({ timeline: z.array(timelineEvent) });
export type TimelineReply = z.output<typeof timelineReply>;

/** Optional `?channel=` of routes that are bound to one channel. */
export const channelQuery = z.strictObject({ channel: z.enum(channels).default("production") });
