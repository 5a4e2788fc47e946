import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { baseImagePrefix } from "@svc/proto/cluster-registry";
import type { Clock } from "@svc/runtime/clock";
import type Docker from "dockerode";
import { holdExclusively } from "./exclusive.ts";
import { hasImage, importImage, pull } from "./local-image.ts";
import { defaultCacheDir } from "./paths.ts";
import { pushImage } from "./push-image.ts";
import type { OperatedRegistry } from "./registry.ts";
import { layDebian, layHeaders, layNode } from "./rootfs.ts";

/** Where the platform's own base image is in its registry. */
export const baseRepository = `${baseImagePrefix}local`;

const buildMs = 900_000;

/** Debian packages of an image that is made here, by what it is for. */
const packagesFor = {
  /** The last stage of every app. */
  apps: ["ca-certificates"],
  /** What is on the way there: native modules are compiled where there is no binary of them. */
  builds: ["ca-certificates", "g++", "make", "python3"],
} as const;

export interface BaseImageOptions {
  clock: Clock;
  docker: Docker;
  /** Name and tag under which builds refer to it, for example `node:24-slim`. */
  image: string;
  for: keyof typeof packagesFor;
  /** A Node binary for this machine; it becomes the image's. */
  nodeBinary: string;
  cacheDir?: string;
  log: (line: string) => void;
  signal?: AbortSignal;
}

/**
 * Puts the base image into the platform's registry, where every build may read it: what is built upon it is then pushed
 * without its layers. Not being able to makes the first build of each project slower, and nothing else.
 */
export async function publishBaseImage(options: {
  docker: Docker;
  image: string;
  registry: OperatedRegistry;
  log: (line: string) => void;
}): Promise<void> {
  const { docker, image, registry, log } = options;
  const repo = `${registry.host}/${baseRepository}`;
  const tag = "node";
  try {
    await docker.getImage(image).tag({ repo, tag });
    await pushImage(docker, `${repo}:${tag}`, await registry.pushToken(baseRepository));
  } catch (error) {
    log(`the base image is not in the registry: ${error instanceof Error ? error.message : String(error)}`);
  }
}

async function build(options: BaseImageOptions, cacheDir: string, signal: AbortSignal): Promise<void> {
  await mkdir(cacheDir, { recursive: true });
  const root = await mkdtemp(join(cacheDir, "image-"));
  try {
    await layDebian(root, {
      clock: options.clock,
      suite: "trixie",
      packages: packagesFor[options.for],
      cacheDir,
      signal,
    });
    await layNode(root, { nodeBinary: options.nodeBinary, cacheDir, signal });
    if (options.for === "builds") await layHeaders(root, options.nodeBinary);
    const changes = [`ENV NODE_VERSION=${process.versions.node}`, "LABEL svc.base-image=local", 'CMD ["node"]'];
    await importImage(options.docker, options.image, { root, changes }, signal);
  } finally {
    await rm(root, { recursive: true, force: true });
  }
}

/**
 * Sees to it that the engine has `image`: present, pulled, or, where no registry answers, built here
 * from Debian and the platform's own Node under the same name. Safe to call from several processes at once.
 */
export async function ensureBaseImage(options: BaseImageOptions): Promise<"present" | "pulled" | "built"> {
  const { clock, docker, image, log } = options;
  if (await hasImage(docker, image)) return "present";
  const cacheDir = options.cacheDir ?? defaultCacheDir(process.env);
  const signal = AbortSignal.any([
    clock.abortAfter(buildMs),
    ...(options.signal === undefined ? [] : [options.signal]),
  ]);
  await using _turn = await holdExclusively(clock, `base image ${image}`, buildMs);
  if (await hasImage(docker, image)) return "present";
  log(`pulling ${image}`);
  const whyNot = await pull(clock, docker, image, signal);
  if (whyNot === null) return "pulled";
  if (process.getuid?.() !== 0) {
    throw new Error(
      `image ${image} cannot be pulled (${whyNot}), and building one here needs root; run: docker pull ${image}`,
    );
  }
  log(
    `no registry gave ${image} (${whyNot.split("\n")[0]}); building one from Debian and Node ${process.versions.node}`,
  );
  await build(options, cacheDir, signal);
  return "built";
}

export interface NodeImages {
  /** What apps run in. */
  baseImage: string;
  /** What they are built in; may be the same. */
  builderImage: string;
}

/** Both images that generated Dockerfiles start from, one after the other: the second finds the disk's cache warm. */
export async function ensureNodeImages(
  { baseImage, builderImage }: NodeImages,
  options: Omit<BaseImageOptions, "image" | "for">,
): Promise<void> {
  await ensureBaseImage({ ...options, image: baseImage, for: "apps" });
  if (builderImage !== baseImage) await ensureBaseImage({ ...options, image: builderImage, for: "builds" });
}
