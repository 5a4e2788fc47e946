import { create } from "@bufbuild/protobuf";
import { plural } from "@svc/proto";
import { type BuildResult, BuildResultSchema } from "@svc/proto/node";
import { siteDoubts } from "@svc/proto/served-site";
import { cleanLine } from "../logs/lines.ts";
import { TaskFailure } from "../placements/failure.ts";
import { type Archive, readArchive } from "./archive.ts";
import { packBundle } from "./bundle.ts";
import { plainDirectory } from "./context.ts";
import { siteDir } from "./dockerfile.ts";
import { fromRegistry } from "./failures.ts";
import type { Job } from "./job.ts";
import { narrate } from "./narrate.ts";
import { shareBaseLayers } from "./share-layers.ts";
import { selectSite } from "./site.ts";
import { siteRuleDoubts } from "./site-rules.ts";

/** Pushes the image of a build, which is tagged with the placement's id. */
export async function pushImage(job: Job): Promise<BuildResult> {
  const { engine, spec, access, registry, client, signal, request } = job;
  const target = { repository: `${access.host}/${spec.targetRepository}`, tag: request.placementId };
  const image = await engine.findImage(`${target.repository}:${target.tag}`);
  const sizeMb = Math.ceil((image?.sizeBytes ?? 0) / 1024 / 1024);
  if (sizeMb > spec.maxImageMb) {
    throw new TaskFailure("IMAGE_TOO_LARGE", `The image has ${sizeMb} MB; the plan allows ${spec.maxImageMb} MB.`);
  }
  narrate(job, `Storing the image (${sizeMb} MB)`);
  if (image !== null) await shareBaseLayers(job, image);
  try {
    const wish = { workId: request.placementId, repository: spec.targetRepository, push: true, mountFrom: "" };
    const digest = await engine.pushImage(target, await registry.token(wish, signal), signal);
    // The engine said so; the registry is asked, because everything later goes by this digest.
    const { manifest } = await client.getManifest(spec.targetRepository, digest);
    const blobs = [manifest.config, ...(manifest.layers ?? [])];
    const sizeBytes = blobs.reduce((sum, blob) => sum + (blob?.size ?? 0), 0);
    narrate(job, `Stored ${digest}`);
    return result(job, digest, sizeBytes);
  } catch (cause) {
    signal.throwIfAborted();
    throw cause instanceof Error && cause.name === "EngineError" ? pushFailed(cause) : fromRegistry(cause);
  }
}

/** What a build of the same key came to, when there was one that may be used again; null otherwise. */
export function builtBefore(job: Job, key: string): BuildResult | null {
  const prior = job.spec.priorBuilds.find((each) => each.key === key);
  if (key === "" || prior === undefined) return null;
  const { deploymentId, digest, sizeBytes, platform } = prior;
  narrate(
    job,
    `Nothing that decides this build has changed: the build of deployment ${deploymentId} is used (${digest}).`,
  );
  narrate(job, "To build it anew: svc deploy --no-cache");
  return create(BuildResultSchema, { digest, sizeBytes, ...(platform && { platform }), key, reusedFrom: deploymentId });
}

/** Takes the site out of the image `name`, which is of no more use then, and pushes it as a bundle. */
export async function pushSite(job: Job, name: string): Promise<BuildResult> {
  const { engine, spec, spoolDir, signal } = job;
  const maxBytes = spec.maxUnpackedMb * 1024 * 1024;
  try {
    await using site = await engine.exportFiles(
      name,
      siteDir,
      (tar) => readArchive(tar, { spoolDir, maxBytes, isOutput: true, signal }),
      signal,
    );
    return await pushBundle(job, site, plainDirectory(siteDir));
  } finally {
    await engine.removeImage(name);
  }
}

/**
 * Pushes the files below `directory` of an archive as a bundle.
 *
 * @param isWhole whether this is the app's own directory, that nothing builds
 */
export async function pushBundle(job: Job, archive: Archive, directory: string, isWhole = false): Promise<BuildResult> {
  const { client, spec, signal } = job;
  const site = selectSite(archive, directory);
  if (site.length === 0) throw outputMissing(directory);
  const paths = site.map(({ path }) => path);
  const about = [...siteDoubts(paths, { isWhole }), ...(await siteRuleDoubts(archive, site))];
  const doubts = about.map((doubt) => cleanLine(doubt, spec.redact));
  for (const doubt of doubts) narrate(job, `Warning: ${doubt}`);
  narrate(job, `Storing the site (${plural(site.length, "file")})`);
  const stream = packBundle(archive, site);
  try {
    const maxSizeBytes = spec.maxImageMb * 1024 * 1024;
    const { digest, sizeBytes } = await client.pushArtifact(spec.targetRepository, {
      kind: "bundle",
      stream,
      maxSizeBytes,
      signal,
    });
    narrate(job, `Stored ${digest}`);
    return result(job, digest, sizeBytes, doubts);
  } catch (cause) {
    signal.throwIfAborted();
    throw fromRegistry(cause);
  } finally {
    stream.destroy();
  }
}

const result = ({ platform }: Job, digest: string, sizeBytes: number, warnings: string[] = []): BuildResult =>
  create(BuildResultSchema, { digest, sizeBytes: BigInt(sizeBytes), platform, warnings });

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
