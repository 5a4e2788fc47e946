import { createHash } from "node:crypto";
import { chmod, copyFile, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "@svc/runtime/clock";
import { run } from "@svc/runtime/command";
import { argv } from "@svc/runtime/programs";
import type Docker from "dockerode";
import { layPackages } from "./debian-packages.ts";
import { holdExclusively } from "./exclusive.ts";
import { hasImage, importImage, pull } from "./local-image.ts";
import { defaultCacheDir, repositoryRoot } from "./paths.ts";
import { isFresh } from "./rootfs.ts";

const buildMs = 900_000;

/** Whom browsers run as: nobody else, on this machine or in the image. */
const user = { name: "browser", id: 998 };

const localLabel = "svc.capture-image";
const recipeLabel = "svc.capture-recipe";

const ownDir = "usr/lib/svc-capture";
const entrySource = join(repositoryRoot, "deploy", "capture", "entry.sh");

/** The browser without a window, the way out of its container, and letters of most languages. */
const packages = [
  ...["chromium-headless-shell", "dash", "socat"],
  ...["fontconfig-config", "fonts-liberation", "fonts-dejavu-core", "fonts-droid-fallback", "fonts-noto-color-emoji"],
];
/** Needed by scripts of packages, by programs that are removed, or to draw with a graphics card. */
const without =
  /^(?:at-spi2-common|coreutils|debconf|debianutils|fonts-dejavu-mono|gcc-\d.*-base|lib(?:asound2-data|bsd0|drm-.*|edit2|elf1t64|gl1.*|glvnd0|glx.*|gmp10|ice6|llvm\d+|lz4-1|md0|pciaccess0|sensors.*|sm6|sqlite3-0|tinfo6|uuid1|vulkan1|wayland-.*|x11-data|xaw7|xcb-.*|xft2|xinerama1|xkbfile1|xml2|xmu.*|xpm4|xshmfence1|xt6t64|xtst6|xv1|xxf86.*|z3-4)|lsb-base|mesa-.*|openssl-.*|sysvinit-utils|x11-.*|xdg-utils)$/;
/** All programs that there are. */
const programs = ["dash", "sh", "socat", "socat1"];
/** What the browser brings along for other uses. */
const droppedOfBrowser = /^(?:chrome_crashpad_handler|libVk.*|libvulkan.*|locales)$/;
const unread = [
  "usr/share/locale",
  "usr/share/menu",
  "usr/share/pkgconfig",
  "usr/share/bash-completion",
  "usr/lib/systemd",
];

export interface CaptureImageOptions {
  clock: Clock;
  docker: Docker;
  /** Name and tag; empty: pictures are not taken. */
  image: string;
  cacheDir?: string;
  log: (line: string) => void;
  signal?: AbortSignal;
}

/**
 * Sees to it that the engine has the image in which pictures of sites are taken: present, pulled, or, where no registry answers, made
 * here of Debian's packages. One that was made here by another recipe than today's is made again. Safe to call from several
 * processes at once.
 */
export async function ensureCaptureImage(
  options: CaptureImageOptions,
): Promise<"none" | "present" | "pulled" | "built"> {
  const { clock, docker, image, log } = options;
  if (image === "") return "none";
  const recipe = await recipeDigest();
  if (await isPresent(docker, image, recipe)) return "present";
  const cacheDir = options.cacheDir ?? defaultCacheDir(process.env);
  const signal = AbortSignal.any([
    clock.abortAfter(buildMs),
    ...(options.signal === undefined ? [] : [options.signal]),
  ]);
  await using _turn = await holdExclusively(clock, `capture image ${image}`, buildMs);
  if (await isPresent(docker, image, recipe)) return "present";
  // A name without a registry in it is the platform's own, which is asked of no public one.
  const isOwnName = !image.includes("/");
  const whyNot = isOwnName || (await hasImage(docker, image)) ? "" : await pull(clock, docker, image, signal);
  if (whyNot === null) return "pulled";
  if (process.getuid?.() !== 0) {
    throw new Error(`image ${image} is not on this machine${whyNot && ` (${whyNot})`}, and making it here needs root`);
  }
  log(`making ${image} of Debian's packages`);
  await build({ image, recipe, docker, cacheDir, clock, signal });
  return "built";
}

/** Whatever an operator put under the name is his; what was made here is present as long as its recipe is today's. */
async function isPresent(docker: Docker, image: string, recipe: string): Promise<boolean> {
  if (!(await hasImage(docker, image))) return false;
  const { Config } = await docker.getImage(image).inspect();
  const marks = Config.Labels ?? {};
  return marks[localLabel] !== "local" || marks[recipeLabel] === recipe;
}

/** Names everything that the image is made of but the packages' versions. */
async function recipeDigest(): Promise<string> {
  const parts = [process.arch, user.id, packages, `${without}`, programs, `${droppedOfBrowser}`, unread];
  const hash = createHash("sha256").update(JSON.stringify(parts));
  return hash
    .update(await readFile(entrySource))
    .digest("hex")
    .slice(0, 16);
}

async function build(options: {
  image: string;
  recipe: string;
  docker: Docker;
  cacheDir: string;
  clock: Clock;
  signal: AbortSignal;
}): Promise<void> {
  const { cacheDir, recipe, signal } = options;
  await mkdir(cacheDir, { recursive: true });
  const work = await mkdtemp(join(cacheDir, "image-"));
  try {
    const root = join(work, "root");
    await mkdir(root);
    const tarball = join(cacheDir, `capture-${recipe}.tar`);
    if (await isFresh(options.clock, tarball)) {
      const unpack = ["--extract", "--numeric-owner", "--preserve-permissions", "--file", tarball, "--directory", root];
      await run(argv("tar", ...unpack), { signal });
    } else {
      await lay(root, { cacheDir, signal });
      const packed = join(work, "root.tar");
      await run(argv("tar", "--create", "--numeric-owner", "--file", packed, "--directory", root, "."), { signal });
      await rename(packed, tarball);
    }
    const changes = [
      `LABEL ${localLabel}=local ${recipeLabel}=${recipe}`,
      `USER ${user.id}:${user.id}`,
      "ENV LANG=C.UTF-8",
      `ENTRYPOINT ["/${ownDir}/entry.sh"]`,
    ];
    await importImage(options.docker, options.image, { root, changes }, signal);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** Everything that the image has, below the directory `root`. */
async function lay(root: string, { cacheDir, signal }: { cacheDir: string; signal: AbortSignal }): Promise<void> {
  await layPackages(root, { suite: "trixie", packages, without, cacheDir, signal });
  await removeBut(join(root, "usr/bin"), (name) => programs.includes(name));
  await removeBut(join(root, "usr/sbin"), () => false);
  await removeBut(join(root, "usr/lib/chromium"), (name) => !droppedOfBrowser.test(name));
  for (const path of unread) await rm(join(root, path), { recursive: true, force: true });
  await writeFile(
    join(root, "etc/passwd"),
    `root:x:0:0:root:/:/bin/false\n${user.name}:x:${user.id}:${user.id}:browser:/tmp:/bin/false\n`,
  );
  await writeFile(join(root, "etc/group"), `root:x:0:\n${user.name}:x:${user.id}:\n`);
  // The root of a container cannot be written to, so whatever is mounted has to be there.
  for (const name of ["dev", "proc", "run", "sys", "tmp", "way"]) await mkdir(join(root, name), { recursive: true });
  await chmod(join(root, "tmp"), 0o1777);
  await mkdir(join(root, ownDir), { recursive: true });
  await copyFile(entrySource, join(root, ownDir, "entry.sh"));
  await chmod(join(root, ownDir, "entry.sh"), 0o755);
}

async function removeBut(directory: string, isKept: (name: string) => boolean): Promise<void> {
  for (const name of await readdir(directory).catch(() => [])) {
    if (!isKept(name)) await rm(join(directory, name), { recursive: true });
  }
}
