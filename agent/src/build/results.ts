import { create } from "@bufbuild/protobuf";
import { type BuildResult, BuildResultSchema } from "@svc/proto/node";
import { TaskFailure } from "../placements/failure.ts";
import { type Archive, readArchive } from "./archive.ts";
import type { Job } from "./builder.ts";
import { packBundle } from "./bundle.ts";
import { plainDirectory } from "./context.ts";
import { SITE_DIR } from "./dockerfile.ts";
import { fromRegistry } from "./failures.ts";
import { shareBaseLayers } from "./share-layers.ts";
import { selectSite } from "./site.ts";

/** Pushes the image of a build, which is tagged with the placement's id. */
export async function pushImage(job: Job): Promise<BuildResult> {
  const { engine, spec, access, registry, client, output, signal, request } = job;
  const target = { repository: `${access.host}/${spec.targetRepository}`, tag: request.placementId };
  const image = await engine.findImage(`${target.repository}:${target.tag}`);
  const sizeMb = Math.ceil((image?.sizeBytes ?? 0) / 1024 / 1024);
  if (sizeMb > spec.maxImageMb) {
    throw new TaskFailure("IMAGE_TOO_LARGE", `The image has ${sizeMb} MB; the plan allows ${spec.maxImageMb} MB.`);
  }
  output.write(`Storing the image (${sizeMb} MB)\n`);
  if (image !== null) await shareBaseLayers(job, image);
  try {
    const wish = { workId: request.placementId, repository: spec.targetRepository, push: true, mountFrom: "" };
    const digest = await engine.pushImage(target, await registry.token(wish, signal), signal);
    // The engine said so; the registry is asked, because everything later goes by this digest.
    const { manifest } = await client.getManifest(spec.targetRepository, digest);
    const blobs = [manifest.config, ...(manifest.layers ?? [])];
    const sizeBytes = blobs.reduce((sum, blob) => sum + (blob?.size ?? 0), 0);
    output.write(`Stored ${digest}\n`);
    return result(job, digest, sizeBytes);
  } catch (cause) {
    signal.throwIfAborted();
    throw cause instanceof Error && cause.name === "EngineError" ? pushFailed(cause) : fromRegistry(cause);
  }
}

/** Takes the site out of the image `name`, which is of no more use then, and pushes it as a bundle. */
export async function pushSite(job: Job, name: string): Promise<BuildResult> {
  const { engine, spec, spoolDir, signal } = job;
  const maxBytes = spec.maxUnpackedMb * 1024 * 1024;
  try {
    await using site = await engine.exportFiles(
      name,
      SITE_DIR,
      (tar) => readArchive(tar, { spoolDir, maxBytes, isOutput: true, signal }),
      signal,
    );
    return await pushBundle(job, site, plainDirectory(SITE_DIR));
  } finally {
    await engine.removeImage(name);
  }
}

/** Pushes the files below `directory` of an archive as a bundle. */
export async function pushBundle(job: Job, archive: Archive, directory: string): Promise<BuildResult> {
  const { client, spec, output, signal } = job;
  const site = selectSite(archive, directory);
  if (site.length === 0) throw outputMissing(directory);
  output.write(`Storing the site (${site.length} files)\n`);
  const stream = packBundle(archive, site);
  try {
    const maxSizeBytes = spec.maxImageMb * 1024 * 1024;
    const { digest, sizeBytes } = await client.pushArtifact(spec.targetRepository, {
      kind: "bundle",
      stream,
      maxSizeBytes,
      signal,
    });
    output.write(`Stored ${digest}\n`);
    return result(job, digest, sizeBytes);
  } catch (cause) {
    signal.throwIfAborted();
    throw fromRegistry(cause);
  } finally {
    stream.destroy();
  }
}

const result = ({ platform }: Job, digest: string, sizeBytes: number): BuildResult =>
  create(BuildResultSchema, { digest, sizeBytes: BigInt(sizeBytes), platform });

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
