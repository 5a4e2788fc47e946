import { mkdir, mkdtemp, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "@svc/runtime/clock";
import { run } from "@svc/runtime/command";
import { argv } from "@svc/runtime/programs";
import type Docker from "dockerode";
import { holdExclusively } from "./exclusive.ts";
import { hasImage, importImage, pull } from "./local-image.ts";
import { defaultCacheDir } from "./paths.ts";
import { isFresh } from "./rootfs.ts";

const buildMs = 900_000;

/** An image that can be made of Debian's packages where no registry has it. */
export interface MadeImage {
  /** What it is for, as labels and files of the cache are named by it. */
  kind: string;
  /** Tells those of one kind apart in the cache; empty: there is one. */
  variant: string;
  /** Names everything that it is made of but the packages' versions. */
  recipe: string;
  /** Of whom its programs run as: a user and a group. */
  userId: number;
  /** Absolute path in the image. */
  entry: string;
  /** Puts everything that it has below the directory `root`. */
  lay(root: string, options: { cacheDir: string; signal: AbortSignal }): Promise<void>;
}

export interface MadeImageOptions {
  clock: Clock;
  docker: Docker;
  cacheDir?: string;
  log: (line: string) => void;
  signal?: AbortSignal;
}

/**
 * Sees to it that the engine has `image` (name and tag): present, pulled, or, where no registry answers, made here. One that was made
 * here by another recipe than today's is made again. Safe to call from several processes at once.
 */
export async function ensureMadeImage(
  image: string,
  made: MadeImage,
  options: MadeImageOptions,
): Promise<"present" | "pulled" | "built"> {
  const { clock, docker, log } = options;
  if (await isPresent(docker, image, made)) return "present";
  const cacheDir = options.cacheDir ?? defaultCacheDir(process.env);
  const signal = AbortSignal.any([
    clock.abortAfter(buildMs),
    ...(options.signal === undefined ? [] : [options.signal]),
  ]);
  await using _turn = await holdExclusively(clock, `${made.kind} image ${image}`, buildMs);
  if (await isPresent(docker, image, made)) return "present";
  // A name without a registry in it is the platform's own, which is asked of no public one.
  const isOwnName = !image.includes("/");
  const whyNot = isOwnName || (await hasImage(docker, image)) ? "" : await pull(clock, docker, image, signal);
  if (whyNot === null) return "pulled";
  if (process.getuid?.() !== 0) {
    throw new Error(`image ${image} is not on this machine${whyNot && ` (${whyNot})`}, and making it here needs root`);
  }
  log(`making ${image} of Debian's packages`);
  await build(image, made, { docker, cacheDir, clock, signal });
  return "built";
}

const localLabel = (kind: string) => `svc.${kind}-image`;
const recipeLabel = (kind: string) => `svc.${kind}-recipe`;

/** Whatever an operator put under the name is his; what was made here is present as long as its recipe is today's. */
async function isPresent(docker: Docker, image: string, { kind, recipe }: MadeImage): Promise<boolean> {
  if (!(await hasImage(docker, image))) return false;
  const { Config } = await docker.getImage(image).inspect();
  const marks = Config.Labels ?? {};
  return marks[localLabel(kind)] !== "local" || marks[recipeLabel(kind)] === recipe;
}

async function build(
  image: string,
  { kind, variant, recipe, userId, entry, lay }: MadeImage,
  { docker, cacheDir, clock, signal }: { docker: Docker; cacheDir: string; clock: Clock; signal: AbortSignal },
): Promise<void> {
  await mkdir(cacheDir, { recursive: true });
  const work = await mkdtemp(join(cacheDir, "image-"));
  try {
    const root = join(work, "root");
    await mkdir(root);
    const tarball = join(cacheDir, `${[kind, variant, recipe].filter((part) => part !== "").join("-")}.tar`);
    if (await isFresh(clock, tarball)) {
      const unpack = ["--extract", "--numeric-owner", "--preserve-permissions", "--file", tarball, "--directory", root];
      await run(argv("tar", ...unpack), { signal });
    } else {
      await lay(root, { cacheDir, signal });
      const packed = join(work, "root.tar");
      const pack = ["--create", "--sparse", "--numeric-owner", "--file", packed, "--directory", root, "."];
      await run(argv("tar", ...pack), { signal });
      await rename(packed, tarball);
    }
    const changes = [
      `LABEL ${localLabel(kind)}=local ${recipeLabel(kind)}=${recipe}`,
      `USER ${userId}:${userId}`,
      "ENV LANG=C.UTF-8",
      `ENTRYPOINT ["${entry}"]`,
    ];
    await importImage(docker, image, { root, changes }, signal);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** Leaves of a directory only what is kept. */
export async function removeBut(directory: string, isKept: (name: string) => boolean): Promise<void> {
  for (const name of await readdir(directory)) {
    if (!isKept(name)) await rm(join(directory, name), { recursive: true });
  }
}
