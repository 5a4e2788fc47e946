import { create } from "@bufbuild/protobuf";
import { limits } from "@svc/proto/limits";
import { type BuildResult, BuildResultSchema, type BuildSpec, type RegistryAccess } from "@svc/proto/node";
import { createRegistry, type Registry } from "@svc/registry";
import type { Engine } from "../engine/engine.ts";
import { toAuth } from "../images/images.ts";
import type { Journal } from "../journal/journal.ts";
import type { LogStream } from "../logs/log-stream.ts";
import { TaskFailure } from "../placements/failure.ts";
import { createSemaphore } from "../semaphore.ts";
import type { DiskGuard } from "../stats/disk.ts";
import { type Archive, readArchive } from "./archive.ts";
import { packBundle } from "./bundle.ts";
import { packContext, plainDirectory } from "./context.ts";
import { NAMESPACE_ARG, SITE_DIR } from "./dockerfile.ts";
import { fromBuild, fromRegistry } from "./failures.ts";
import { createBuildProgress } from "./progress.ts";
import { prepareRecipe, type Recipe } from "./recipe.ts";
import { selectSite } from "./site.ts";

const BUILDS_AT_ONCE = 2;
/** Reproduces the names that the operating system and the registry use. */
const ARCHITECTURES: Readonly<Record<string, string>> = { x64: "amd64", arm64: "arm64" };

/** Turns source archives into images and bundles. */
export type Builder = {
  /**
   * Builds and pushes. Safe to repeat: names derive from the placement, and what a broken-off build left is
   * overwritten or removed.
   *
   * @param onStart when a place was free and the work begins
   * @throws TaskFailure with the code that a person can act on
   */
  build(
    request: { placementId: string; projectId: string; spec: BuildSpec; onStart(): void },
    signal: AbortSignal,
  ): Promise<BuildResult>;
};

export function createBuilder(options: {
  engine: Engine;
  journal: Journal;
  registry(): RegistryAccess | null;
  openLog(placementId: string): LogStream;
  spoolDir: string;
  /** Resolves once build steps are kept from the host's own services. */
  isolated(): Promise<void>;
  checkDisk: DiskGuard;
}): Builder {
  const inTurn = createSemaphore(BUILDS_AT_ONCE);
  return {
    build: ({ placementId, projectId, spec, onStart }, signal) =>
      inTurn(signal, async () => {
        onStart();
        await options.isolated();
        await options.checkDisk();
        const access = options.registry();
        if (access === null) {
          throw new TaskFailure("ARTIFACT_REGISTRY_UNAVAILABLE", "This node does not know the artifact registry yet.", {
            isTransient: true,
          });
        }
        const timeout = AbortSignal.timeout(spec.timeoutSeconds * 1000);
        const log = options.openLog(placementId);
        await using registry = createRegistry(toOptions(access));
        const job: Job = {
          ...options,
          placementId,
          spec,
          access,
          registry,
          log,
          signal: AbortSignal.any([signal, timeout]),
        };
        try {
          const built = await runBuild(job);
          // A later placement finds an image here, and the keeper of images knows of it.
          const reference = `${access.host}/${spec.targetRepository}@${built.digest}`;
          if (spec.recipe.case === "image") options.journal.noteImage(reference, projectId, Date.now());
          return built;
        } catch (cause) {
          signal.throwIfAborted();
          const failure = timeout.aborted ? timedOut(spec) : cause;
          if (failure instanceof TaskFailure && !failure.isTransient) log.write(`\n${failure.message}\n`);
          throw failure;
        } finally {
          log.end();
        }
      }),
  };
}

type Job = {
  engine: Engine;
  spoolDir: string;
  placementId: string;
  spec: BuildSpec;
  access: RegistryAccess;
  registry: Registry;
  log: LogStream;
  signal: AbortSignal;
};

async function runBuild(job: Job): Promise<BuildResult> {
  const { spec, log } = job;
  log.write("Fetching the source\n");
  await using source = await fetchSource(job);
  const recipe = await prepareRecipe(source, spec);
  if (recipe.kind === "files") return await pushBundle(job, source, recipe.directory);
  const tag = { repository: `${job.access.host}/${spec.targetRepository}`, tag: job.placementId };
  try {
    await buildImage(job, source, recipe, `${tag.repository}:${tag.tag}`);
    if (recipe.kind === "image") return await pushImage(job, tag);
    return await pushSite(job, `${tag.repository}:${tag.tag}`);
  } catch (cause) {
    await job.engine.removeImage(`${tag.repository}:${tag.tag}`);
    throw cause;
  }
}

async function fetchSource({ registry, spec, spoolDir, signal }: Job): Promise<Archive> {
  const maxBytes = spec.maxUnpackedMb * 1024 * 1024;
  try {
    const stream = await registry.pullArtifact(spec.sourceRepository, spec.sourceDigest, {
      maxSizeBytes: maxBytes,
      signal,
    });
    return await readArchive(stream, { spoolDir, maxBytes, gzip: true, signal });
  } catch (cause) {
    signal.throwIfAborted();
    throw fromRegistry(cause);
  }
}

async function buildImage(
  { engine, spec, log, signal }: Job,
  source: Archive,
  recipe: Exclude<Recipe, { kind: "files" }>,
  tag: string,
): Promise<void> {
  const progress = createBuildProgress();
  const context = packContext(source, recipe);
  try {
    await engine.buildImage(
      context,
      { tag, dockerfile: recipe.dockerfile, buildArgs: { [NAMESPACE_ARG]: spec.cacheNamespace } },
      (trace) => log.write(progress.add(trace)),
      signal,
    );
  } catch (cause) {
    signal.throwIfAborted();
    throw fromBuild(cause, progress, recipe.kind === "site" ? recipe.output : null);
  } finally {
    context.destroy();
  }
}

async function pushImage(job: Job, tag: { repository: string; tag: string }): Promise<BuildResult> {
  const { engine, spec, access, registry, log, signal } = job;
  const image = await engine.findImage(`${tag.repository}:${tag.tag}`);
  const sizeMb = Math.ceil((image?.sizeBytes ?? 0) / 1024 / 1024);
  if (sizeMb > spec.maxImageMb) {
    throw new TaskFailure("IMAGE_TOO_LARGE", `The image has ${sizeMb} MB; the plan allows ${spec.maxImageMb} MB.`);
  }
  log.write(`Storing the image (${sizeMb} MB)\n`);
  try {
    const digest = await engine.pushImage(tag, toAuth(access), signal);
    // The engine said so; the registry is asked, because everything later goes by this digest.
    const { manifest } = await registry.getManifest(spec.targetRepository, digest);
    const blobs = [manifest.config, ...(manifest.layers ?? [])];
    const sizeBytes = blobs.reduce((sum, blob) => sum + (blob?.size ?? 0), 0);
    log.write(`Stored ${digest}\n`);
    return result(digest, sizeBytes);
  } catch (cause) {
    signal.throwIfAborted();
    throw cause instanceof Error && cause.name === "EngineError" ? pushFailed(cause) : fromRegistry(cause);
  }
}

async function pushSite(job: Job, image: string): Promise<BuildResult> {
  const { engine, spec, spoolDir, signal } = job;
  const maxBytes = spec.maxUnpackedMb * 1024 * 1024;
  try {
    await using site = await engine.exportFiles(
      image,
      SITE_DIR,
      (tar) => readArchive(tar, { spoolDir, maxBytes, gzip: false, signal }),
      signal,
    );
    return await pushBundle(job, site, plainDirectory(SITE_DIR));
  } finally {
    await engine.removeImage(image);
  }
}

async function pushBundle(job: Job, archive: Archive, directory: string): Promise<BuildResult> {
  const { registry, spec, log, signal } = job;
  const site = selectSite(archive, directory);
  if (site.length === 0) throw outputMissing(directory);
  log.write(`Storing the site (${site.length} files)\n`);
  const stream = packBundle(archive, site);
  try {
    const maxSizeBytes = spec.maxImageMb * 1024 * 1024;
    const { digest, sizeBytes } = await registry.pushArtifact(spec.targetRepository, {
      kind: "bundle",
      stream,
      maxSizeBytes,
      signal,
    });
    log.write(`Stored ${digest}\n`);
    return result(digest, sizeBytes);
  } catch (cause) {
    signal.throwIfAborted();
    throw fromRegistry(cause);
  } finally {
    stream.destroy();
  }
}

const result = (digest: string, sizeBytes: number): BuildResult =>
  create(BuildResultSchema, {
    digest,
    sizeBytes: BigInt(sizeBytes),
    platform: { os: "linux", architecture: ARCHITECTURES[process.arch] ?? process.arch },
  });

const outputMissing = (directory: string): TaskFailure =>
  new TaskFailure(
    "BUILD_OUTPUT_MISSING",
    `There are no files to serve in "${directory || "."}". Check build.output in the manifest.`,
  );

const pushFailed = (cause: unknown): TaskFailure =>
  new TaskFailure("ARTIFACT_REGISTRY_UNAVAILABLE", "The artifact registry did not take the image. Try again.", {
    isTransient: true,
    cause,
  });

const timedOut = (spec: BuildSpec): TaskFailure =>
  new TaskFailure("BUILD_TIMEOUT", `The build took longer than ${Math.round(spec.timeoutSeconds / 60)} minutes.`);

function toOptions(access: RegistryAccess): { url: string; username?: string; password?: string } {
  const url = `${access.insecure ? "http" : "https"}://${access.host}`;
  return access.username === "" ? { url } : { url, username: access.username, password: access.password };
}

/** Most of a build's log that is kept. */
export const BUILD_LOG_MAX_BYTES = limits.buildLogBytesMax;
