import { randomBytes } from "node:crypto";
import { splitLastLines } from "@svc/proto";
import { baseImagePrefix } from "@svc/proto/cluster-registry";
import { limits } from "@svc/proto/limits";
import type { BuildResult, BuildSpec, RegistryAccess } from "@svc/proto/node";
import { createRegistry, type Registry } from "@svc/registry";
import type { Engine, Owner } from "../engine/engine.ts";
import { dockerfileProblem, leavesStubs } from "../engine/floors.ts";
import type { Images } from "../images/images.ts";
import type { Journal } from "../journal/journal.ts";
import type { Log } from "../log.ts";
import type { LogStream } from "../logs/log-stream.ts";
import { TaskFailure } from "../placements/failure.ts";
import { type ClusterRegistry, tokensFor } from "../registry.ts";
import { createSemaphore, type Semaphore } from "../semaphore.ts";
import type { DiskGuard } from "../stats/disk.ts";
import { type Archive, readArchive } from "./archive.ts";
import { type AskForBaseImage, provideBaseImage } from "./base-images.ts";
import { buildKey } from "./build-key.ts";
import { plainDirectory } from "./context.ts";
import { fromRegistry, timedOut } from "./failures.ts";
import { buildImage } from "./image-build.ts";
import { provideStubs } from "./mount-stubs.ts";
import { narrate } from "./narrate.ts";
import { type BuildProgress, createBuildProgress } from "./progress.ts";
import { prepareRecipe } from "./recipe.ts";
import { builtBefore, pushBundle, pushImage, pushSite } from "./results.ts";
import type { StepLimiter, StepLimits } from "./step-limits.ts";
import { buildTag } from "./tag.ts";
import type { BuilderFacts } from "./user-recipe.ts";

const BUILDS_AT_ONCE = 2;
/** From this major version on the engine's own parser knows here-documents. */
const DOCUMENTS_SINCE = 23;
/** Reproduces the names that the operating system and the registry use. */
const ARCHITECTURES: Readonly<Record<string, string>> = { x64: "amd64", arm64: "arm64" };

export type BuildRequest = {
  placementId: string;
  projectId: string;
  spec: BuildSpec;
  /** For all steps of the build together. */
  limits: StepLimits;
  /** A place was free and the work begins. */
  onStart(): void;
};

/** Turns source archives into images and bundles. */
export type Builder = {
  /**
   * Builds and pushes. Safe to repeat: names derive from the placement, and what a broken-off build left is
   * overwritten or removed. A project has one build at a time on a node; the others wait.
   *
   * @throws TaskFailure with the code that a person can act on
   */
  build(request: BuildRequest, signal: AbortSignal): Promise<BuildResult>;
  /** Removes what a build that came to no result may have left. */
  discard(placementId: string, spec: BuildSpec): Promise<void>;
};

export type BuilderDeps = {
  engine: Engine;
  journal: Journal;
  registry: ClusterRegistry;
  images: Images;
  askForBaseImage: AskForBaseImage;
  openLog(placementId: string): LogStream;
  spoolDir: string;
  /** Resolves once build steps are kept from the host's own services. */
  isolated(): Promise<void>;
  checkDisk: DiskGuard;
  limiter: StepLimiter;
  /** How often what steps wrote is looked at. */
  lookEveryMs: number;
  owner: Owner;
  log: Log;
};

/** One build under way. */
export type Job = BuilderDeps & {
  request: BuildRequest;
  spec: BuildSpec;
  access: RegistryAccess;
  client: Registry;
  output: LogStream;
  progress: BuildProgress;
  platform: { os: string; architecture: string };
  signal: AbortSignal;
};

export function createBuilder(deps: BuilderDeps): Builder {
  const inTurn = createSemaphore(BUILDS_AT_ONCE);
  const byProject = createQueues();

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
    const timeout = AbortSignal.timeout(spec.timeoutSeconds * 1000);
    const output = deps.openLog(placementId);
    const progress = createBuildProgress(spec.redact, `${access.host}/${baseImagePrefix}`);
    const within = AbortSignal.any([signal, timeout]);
    await using client = createRegistry({
      url: `${access.insecure ? "http" : "https"}://${access.host}`,
      tokens: tokensFor(deps.registry, placementId, within),
    });
    const platform = { os: "linux", architecture: ARCHITECTURES[process.arch] ?? process.arch };
    try {
      const built = await run({ ...deps, request, spec, access, client, output, progress, platform, signal: within });
      // A later placement finds an image here, and the keeper of images knows of it.
      const reference = `${access.host}/${spec.targetRepository}@${built.digest}`;
      const isHere = spec.recipe.case === "image" && built.reusedFrom === "";
      if (isHere) deps.journal.noteImage(reference, projectId, Date.now());
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
      byProject(request.spec.cacheNamespace, signal, () => inTurn(signal, () => start(request, signal))),
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
  const before = builtBefore(job, key);
  if (before !== null) return before;
  const name = nameOf(access, spec, request.placementId);
  if (facts.leavesStubs) await provideStubs(job.engine);
  try {
    await buildImage(job, source, recipe, name);
    const built = recipe.kind === "image" ? await pushImage(job) : await pushSite(job, name);
    return { ...built, key };
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
    hasDocuments: Number.parseInt(versions.version, 10) >= DOCUMENTS_SINCE,
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

const ENV_KEY_SETTING = "build-env-key";

/** Made by the first build of a node. When it is lost, steps with variables are run once more. */
function envKeyOf(journal: Journal): Buffer {
  const known = journal.findSetting(ENV_KEY_SETTING);
  if (known !== null) return Buffer.from(known, "base64");
  const key = randomBytes(32);
  journal.saveSetting(ENV_KEY_SETTING, key.toString("base64"));
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

/** One piece of work at a time per key. */
function createQueues(): <T>(key: string, signal: AbortSignal, work: () => Promise<T>) => Promise<T> {
  const queues = new Map<string, { enter: Semaphore; users: number }>();
  return async (key, signal, work) => {
    const queue = queues.get(key) ?? { enter: createSemaphore(1), users: 0 };
    queues.set(key, queue);
    queue.users += 1;
    try {
      return await queue.enter(signal, work);
    } finally {
      queue.users -= 1;
      if (queue.users === 0) queues.delete(key);
    }
  };
}

/** Most of a build's log that is kept. Control keeps a little more, so that the end is never cut there. */
export const BUILD_LOG_MAX_BYTES = limits.buildLogBytesMax - 4096;
