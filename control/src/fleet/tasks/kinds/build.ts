// @pure
import { create } from "@bufbuild/protobuf";
import { isOciManifest, limits, type Manifest, type SourceManifest } from "@svc/proto";
import { defaultOutput } from "@svc/proto/frameworks";
import { BuildSpecSchema } from "@svc/proto/node";
import { z } from "zod";
import type { Deployment, Plan, Project } from "../../../stores/db/tables.ts";
import { repositories } from "../../artifacts/repositories.ts";
import type { PriorBuild } from "../prior-builds.ts";
import type { Kind, NewTask } from "./kind.ts";

const spec = z.object({
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
export type BuildTaskSpec = z.infer<typeof spec>;

/** Builds share the processor with sites; more than this many at once on one node starve both. */
const perNodeMax = 2;

/** Turns a deployment's source into its artifact, and ends by itself. */
export const build: Kind<BuildTaskSpec, "deployment"> = {
  owner: "deployment",
  rules: {
    placement: "idle",
    crowd: { max: perNodeMax, reason: "busy building" },
    // Its artifact is yet to be made.
    hasImage: false,
    isLasting: false,
    leaves: "redone",
    // Who cancels some harms nobody else.
    isVisited: false,
  },
  spec,
  needs: ({ sourceRepository, targetRepository: repository, recipe }) => ({
    pull: [sourceRepository, repository],
    push: { repository, kind: "static" in recipe ? "bundle" : "image" },
    baseImages: true,
  }),
  // The environment is without the platform's facts: it is not repeated for an id that is new each time.
  forNode({ kind: _, recipe, ...rest }, { owner, ...installation }) {
    const { ownEnv: env, envDigest, priorBuilds } = owner;
    const { baseImage, builderImage, buildCaBundle: caBundle } = installation;
    return {
      case: "build",
      value: create(BuildSpecSchema, {
        ...rest,
        recipe: "static" in recipe ? { case: "static", value: recipe.static } : { case: "image", value: recipe.image },
        ...{ baseImage, builderImage, caBundle, env, envDigest: envDigest() },
        redact: Object.values(env),
        priorBuilds: priorBuilds.filter(({ repository }) => repository === rest.targetRepository).map(asMessage),
        noCache: owner.deployment.force_build,
      }),
    };
  },
};

const asMessage = ({ deploymentId, key, digest, sizeBytes, os, architecture }: PriorBuild) => ({
  ...{ deploymentId, key, digest, sizeBytes: BigInt(sizeBytes) },
  ...(os !== null && architecture !== null && { platform: { os, architecture } }),
});

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

/** An agent of before there was `outputSaid` takes the usual output for one that nobody said. */
const staticRecipe = ({ command = "", output }: SourceManifest["build"]) => ({
  command,
  output: output ?? defaultOutput,
  outputSaid: output !== undefined,
});

/** The build that turns a deployment's source into its artifact. */
export function buildTask(
  deployment: Deployment,
  project: Project,
  plan: Plan,
  manifest: Manifest,
): NewTask<BuildTaskSpec> {
  if (isOciManifest(manifest) || deployment.source_digest === null || deployment.source_repository === null) {
    throw new Error("an image deployment has nothing to build");
  }
  const { build: commands, start } = manifest;
  const isStatic = manifest.app.type === "static";
  return {
    spec: {
      kind: "build",
      sourceRepository: deployment.source_repository,
      sourceDigest: deployment.source_digest,
      targetRepository: isStatic ? repositories.bundle(project.id) : repositories.image(project.id),
      rootDirectory: manifest.source.rootDirectory,
      recipe: isStatic
        ? { static: staticRecipe(commands) }
        : {
            image: {
              dockerfile: commands.dockerfile ?? "",
              buildCommand: commands.command ?? "",
              startCommand: start.command ?? "",
              port: manifest.app.port,
            },
          },
      timeoutSeconds: limits.buildSecondsMax,
      maxImageMb: Math.max(plan.storage_mb, 1),
      maxUnpackedMb: maxUnpackedMb(plan),
      cacheNamespace: project.id,
    },
    ...buildResources,
    storageMb: buildStorageMb(plan),
    nodeSelector: plan.node_selector,
  };
}
