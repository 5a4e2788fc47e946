import { createHash } from "node:crypto";
import type { Manifest, SourceManifest } from "@svc/proto";
import { isOciManifest, limits, manifestPort } from "@svc/proto";
import { defaultOutput } from "@svc/proto/frameworks";
import { canonicalJson } from "@svc/runtime/canonical-json";
import { z } from "zod";
import { reservationOf } from "../../identity/plans/rules.ts";
import type { Deployment, Plan, Project } from "../../stores/db/tables.ts";
import { repositories } from "../artifacts/repositories.ts";

/** What a node is to build, as stored with the task. No secrets. */
const buildSpec = z.object({
  kind: z.literal("build"),
  sourceRepository: z.string(),
  sourceDigest: z.string(),
  targetRepository: z.string(),
  rootDirectory: z.string(),
  recipe: z.union([
    z.object({
      // Whether the output beside a command is somebody's; absent from a control of before.
      static: z.object({ command: z.string(), output: z.string(), outputSaid: z.boolean().exactOptional() }),
    }),
    z.object({
      image: z.object({
        dockerfile: z.string(),
        buildCommand: z.string(),
        startCommand: z.string(),
        port: z.number().int(),
      }),
    }),
  ]),
  timeoutSeconds: z.number().int(),
  maxImageMb: z.number().int(),
  maxUnpackedMb: z.number().int(),
  cacheNamespace: z.string(),
});

/** What a node is to serve, as stored with the task. Its environment is sealed with the deployment. */
const serveSpec = z.object({
  kind: z.literal("serve"),
  /** repository@digest, with the registry's host unless it is the cluster's own. */
  repository: z.string(),
  digest: z.string(),
  /** Null: the cluster's registry. */
  registryHost: z.string().nullable(),
  command: z.array(z.string()),
  port: z.number().int(),
  health: z.object({ path: z.string(), timeoutSeconds: z.number().int() }),
  maxImageMb: z.number().int(),
});

export const taskSpec = z.discriminatedUnion("kind", [buildSpec, serveSpec]);
export type TaskSpec = z.infer<typeof taskSpec>;
export type BuildTaskSpec = z.infer<typeof buildSpec>;
export type ServeTaskSpec = z.infer<typeof serveSpec>;

/**
 * Builds get room of their own, independent of what the plan gives the running app. What is set aside is what installing and
 * building a small app was seen to take, and some more.
 */
export const buildResources = {
  ...{ memoryMb: 1024, cpuMillicores: 1000, pidsLimit: 1024 },
  ...{ reservedMemoryMb: 384, reservedCpuMillicores: 250 },
} as const;
/** What a source may unpack to: ten times what it may have packed. */
export const maxUnpackedMb = (plan: Pick<Plan, "max_upload_mb">): number => plan.max_upload_mb * 10;
/**
 * What a build may write: its source once more, and the image that may come of it twice, since most of what is installed
 * to build an app lies beside what the image takes of it.
 */
export const buildStorageMb = (plan: Pick<Plan, "max_upload_mb" | "storage_mb">): number =>
  maxUnpackedMb(plan) + 2 * plan.storage_mb;

export interface NewTask {
  spec: TaskSpec;
  specHash: string;
  memoryMb: number;
  cpuMillicores: number;
  pidsLimit: number;
  /** What is set aside of memory and processor time. */
  reservedMemoryMb: number;
  reservedCpuMillicores: number;
  /** What it may write to its node's disk. */
  storageMb: number;
  /** Labels that its node must have. */
  nodeSelector: Readonly<Record<string, string>>;
}

/** Two specs with the same hash are the same work. */
const specHash = (spec: TaskSpec): string => createHash("sha256").update(canonicalJson(spec)).digest("hex");
/** An agent of before there was `outputSaid` takes the usual output for one that nobody said. */
const staticRecipe = ({ command = "", output }: SourceManifest["build"]) => ({
  command,
  output: output ?? defaultOutput,
  outputSaid: output !== undefined,
});

/** The build that turns a deployment's source into its artifact. */
export function buildTask(deployment: Deployment, project: Project, plan: Plan, manifest: Manifest): NewTask {
  if (isOciManifest(manifest) || deployment.source_digest === null || deployment.source_repository === null) {
    throw new Error("an image deployment has nothing to build");
  }
  const { build, start } = manifest;
  const isStatic = manifest.app.type === "static";
  const spec: BuildTaskSpec = {
    kind: "build",
    sourceRepository: deployment.source_repository,
    sourceDigest: deployment.source_digest,
    targetRepository: isStatic ? repositories.bundle(project.id) : repositories.image(project.id),
    rootDirectory: manifest.source.rootDirectory,
    recipe: isStatic
      ? { static: staticRecipe(build) }
      : {
          image: {
            dockerfile: build.dockerfile ?? "",
            buildCommand: build.command ?? "",
            startCommand: start.command ?? "",
            port: manifest.app.port,
          },
        },
    timeoutSeconds: limits.buildSecondsMax,
    maxImageMb: Math.max(plan.storage_mb, 1),
    maxUnpackedMb: maxUnpackedMb(plan),
    cacheNamespace: project.id,
  };
  return {
    spec,
    specHash: specHash(spec),
    ...buildResources,
    storageMb: buildStorageMb(plan),
    nodeSelector: plan.node_selector,
  };
}

/** What each container of an account with the plan may take, and what is set aside for it. */
export const limitsOfPlan = (plan: Plan) => ({
  memoryMb: plan.memory_mb,
  cpuMillicores: plan.cpu_millicores,
  pidsLimit: plan.pids_limit,
  storageMb: plan.storage_mb,
  ...reservationOf(plan),
});

/** One container of a deployment whose image is known. */
export function serveTask(
  deployment: Deployment,
  plan: Plan,
  manifest: Manifest,
  registryHost: string | null,
): NewTask {
  if (deployment.artifact_repository === null || deployment.artifact_digest === null) {
    throw new Error("the deployment has no image yet");
  }
  const spec: ServeTaskSpec = {
    kind: "serve",
    repository: deployment.artifact_repository,
    digest: deployment.artifact_digest,
    registryHost,
    // A generated image carries its start command; an uploaded Dockerfile or a foreign image its own.
    command: [],
    port: manifestPort(manifest),
    health: { path: manifest.health.path, timeoutSeconds: manifest.health.timeoutSeconds },
    maxImageMb: isOciManifest(manifest) ? plan.max_image_mb : plan.storage_mb,
  };
  return {
    spec,
    specHash: specHash(spec),
    ...limitsOfPlan(plan),
    nodeSelector: plan.node_selector,
  };
}

/** How many containers a deployment with an image wants. */
export const replicasOf = (manifest: Manifest): number => (isOciManifest(manifest) ? 1 : manifest.app.replicas);

/** Slots of a deployment, counted from 0, that have no container among `tasks`. */
export function emptySlots(tasks: readonly { replica: number }[], replicas: number): number[] {
  const taken = new Set(tasks.map(({ replica }) => replica));
  return Array.from({ length: replicas }, (_, slot) => slot).filter((slot) => !taken.has(slot));
}

/** What every container of a deployment is told about itself; wins over the project's own variables. */
export function platformEnv(deployment: Deployment, project: Project, manifest: Manifest): Record<string, string> {
  return {
    PORT: String(manifestPort(manifest)),
    SVC_PROJECT_ID: project.id,
    SVC_PROJECT_SLUG: project.slug,
    SVC_CHANNEL: deployment.channel,
    SVC_DEPLOYMENT_ID: deployment.id,
    SVC_PUBLIC_URL: deployment.url,
    ...(deployment.git_sha !== null && { SVC_GIT_SHA: deployment.git_sha }),
  };
}
