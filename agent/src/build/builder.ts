import { randomBytes } from "node:crypto";
import { splitLastLines } from "@svc/proto";
import { baseImagePrefix } from "@svc/proto/cluster-registry";
import { limits } from "@svc/proto/limits";
import type { BuildResult, BuildSpec, RegistryAccess } from "@svc/proto/node";
import { realtimePackage } from "@svc/proto/realtime";
import { createRegistry } from "@svc/registry";
import { createLimiter } from "@svc/runtime/limiter";
import { dockerfileProblem, leavesStubs } from "../engine/floors.ts";
import type { Journal } from "../journal/journal.ts";
import { TaskFailure } from "../placements/failure.ts";
import { tokensFor } from "../registry.ts";
import { type Archive, readArchive } from "./archive.ts";
import { provideBaseImage } from "./base-images.ts";
import { buildKey } from "./build-key.ts";
import { plainDirectory } from "./context.ts";
import { fromRegistry, timedOut } from "./failures.ts";
import { buildImage } from "./image-build.ts";
import type { BuilderDeps, BuildRequest, Job } from "./job.ts";
import { provideStubs } from "./mount-stubs.ts";
import { narrate } from "./narrate.ts";
import { findPackages } from "./node-project.ts";
import { createBuildProgress } from "./progress.ts";
import { prepareRecipe } from "./recipe.ts";
import { builtBefore, pushBundle, pushImage, pushSite } from "./results.ts";
import { buildTag } from "./tag.ts";
import type { BuilderFacts } from "./user-recipe.ts";

const buildsAtOnce = 2;
/** From this major version on the engine's own parser knows here-documents. */
const documentsSince = 23;
/** Reproduces the names that the operating system and the registry use. */
const architectures: Readonly<Record<string, string>> = { x64: "amd64", arm64: "arm64" };
/** Turns source archives into images and bundles. */
export interface Builder {
  /**
   * Builds and pushes. Safe to repeat: names derive from the placement, and what a broken-off build left is
   * overwritten or removed. A project has one build at a time on a node; the others wait.
   *
   * @throws TaskFailure with the code that a person can act on
   */
  build(request: BuildRequest, signal: AbortSignal): Promise<BuildResult>;
  /** Removes what a build that came to no result may have left. */
  discard(placementId: string, spec: BuildSpec): Promise<void>;
}

export function createBuilder(deps: BuilderDeps): Builder {
  const inTurn = createLimiter({ total: buildsAtOnce });
  const byProject = createLimiter({ perKey: 1 });

  const start = async (request: BuildRequest, signal: AbortSignal): Promise<BuildResult> => {
    const { placementId, projectId, spec } = request;
    request.onStart();
    await deps.isolated();
    await deps.checkDisk();
    const access = deps.registry.find();
    if (access === null) {
      throw new TaskFailure("ARTIFACT_REGISTRY_UNAVAILABLE", "This node does not know the artifact registry yet.", {
        isTransient: true,
      });
    }
    const timeout = deps.clock.abortAfter(spec.timeoutSeconds * 1000);
    const output = deps.openLog(placementId);
    const progress = createBuildProgress(spec.redact, `${access.host}/${baseImagePrefix}`);
    const within = AbortSignal.any([signal, timeout]);
    await using client = createRegistry(deps.clock, {
      url: `${access.insecure ? "http" : "https"}://${access.host}`,
      tokens: tokensFor(deps.registry, placementId, within),
    });
    const platform = { os: "linux", architecture: architectures[process.arch] ?? process.arch };
    try {
      const built = await run({ ...deps, request, spec, access, client, output, progress, platform, signal: within });
      // A later placement finds an image here, and the keeper of images knows of it.
      const reference = `${access.host}/${spec.targetRepository}@${built.digest}`;
      const isHere = spec.recipe.case === "image" && built.reusedFrom === "";
      if (isHere) deps.journal.noteImage(reference, projectId, deps.clock.now().getTime());
      return built;
    } catch (cause) {
      signal.throwIfAborted();
      const failure = timeout.aborted ? timedOut(spec.timeoutSeconds, progress) : cause;
      // The last lines of the step stand in the log already.
      if (failure instanceof TaskFailure && !failure.isTransient) {
        narrate({ output, spec }, splitLastLines(failure.message).reason);
      }
      throw failure;
    } finally {
      output.end();
    }
  };

  return {
    build: (request, signal) =>
      byProject(() => inTurn(() => start(request, signal), { signal }), { key: request.spec.cacheNamespace, signal }),
    async discard(placementId, spec) {
      const access = deps.registry.find();
      if (access !== null) await deps.engine.removeImage(nameOf(access, spec, placementId));
    },
  };
}

const nameOf = ({ host }: RegistryAccess, { targetRepository }: BuildSpec, placementId: string): string =>
  buildTag(`${host}/${targetRepository}`, placementId);

async function run(job: Job): Promise<BuildResult> {
  const { spec, access, request } = job;
  narrate(job, "Fetching the source");
  await using source = await fetchSource(job);
  const baseImages = new Map<string, string>();
  const facts = await factsOf(job, baseImages);
  const recipe = await prepareRecipe(source, spec, facts);
  if (recipe.kind === "files")
    return await pushBundle(job, source, recipe.directory, recipe.directory === plainDirectory(spec.rootDirectory));
  if (recipe.kind === "image") for (const note of recipe.notes ?? []) narrate(job, note);
  const key = buildKey({ spec, recipe, baseImages, platform: job.platform });
  const packages =
    recipe.kind === "image" ? await findPackages(source, plainDirectory(spec.rootDirectory), [realtimePackage]) : [];
  const before = builtBefore(job, key);
  if (before !== null) return { ...before, packages };
  const name = nameOf(access, spec, request.placementId);
  if (facts.leavesStubs) await provideStubs(job.engine);
  try {
    await buildImage(job, source, recipe, name);
    const built = recipe.kind === "image" ? await pushImage(job) : await pushSite(job, name);
    return { ...built, key, packages };
  } catch (cause) {
    await job.engine.removeImage(name);
    throw cause;
  }
}

/** @param baseImages gets the id of each image that is provided, by its reference */
async function factsOf(job: Job, baseImages: Map<string, string>): Promise<BuilderFacts> {
  const { engine, platform, journal } = job;
  const versions = await engine.describe();
  return {
    dockerfileProblem: dockerfileProblem(versions),
    hasDocuments: Number.parseInt(versions.version, 10) >= documentsSince,
    leavesStubs: leavesStubs(versions),
    async provideBaseImage(reference) {
      const name = await provideBaseImage(job, reference);
      baseImages.set(reference, (await engine.findImage(name))?.id ?? "");
      return name;
    },
    platform: `${platform.os}/${platform.architecture}`,
    envKey: envKeyOf(journal),
  };
}

const envKeySetting = "build-env-key";

/** Made by the first build of a node. When it is lost, steps with variables are run once more. */
function envKeyOf(journal: Journal): Buffer {
  const known = journal.findSetting(envKeySetting);
  if (known !== null) return Buffer.from(known, "base64");
  const key = randomBytes(32);
  journal.saveSetting(envKeySetting, key.toString("base64"));
  return key;
}

async function fetchSource({ client, spec, spoolDir, signal }: Job): Promise<Archive> {
  const maxBytes = spec.maxUnpackedMb * 1024 * 1024;
  try {
    const stream = await client.pullArtifact(spec.sourceRepository, spec.sourceDigest, {
      maxSizeBytes: maxBytes,
      signal,
    });
    return await readArchive(stream, { spoolDir, maxBytes, isOutput: false, signal });
  } catch (cause) {
    signal.throwIfAborted();
    throw fromRegistry(cause);
  }
}

/** Most of a build's log that is kept. Control keeps a little more, so that the end is never cut there. */
export const buildLogMaxBytes = limits.buildLogBytesMax - 4096;
