import { createHash } from "node:crypto";
import { chmod, copyFile, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { layPackages } from "./debian-packages.ts";
import { ensureMadeImage, type MadeImageOptions, removeBut } from "./made-image.ts";
import { repositoryRoot } from "./paths.ts";

/** Whom browsers run as: nobody else, on this machine or in the image. */
const user = { name: "browser", id: 998 };

const ownDir = "usr/lib/svc-capture";
const entrySource = join(repositoryRoot, "deploy", "capture", "entry.sh");

/** The browser without a window, the way out of its container, and letters of most languages. */
const packages = [
  ...["chromium-headless-shell", "dash", "socat"],
  ...["fontconfig-config", "fonts-liberation", "fonts-dejavu-core", "fonts-droid-fallback", "fonts-noto-color-emoji"],
];
/**
 * Needed by scripts of packages, by programs that are removed, or to draw with a graphics card. What the browser loads only when it
 * first speaks TLS, as NSS does with SQLite, is in no list of what it needs, and stays.
 */
const without =
  /^(?:at-spi2-common|coreutils|debconf|debianutils|fonts-dejavu-mono|gcc-\d.*-base|lib(?:asound2-data|bsd0|drm-.*|edit2|elf1t64|gl1.*|glvnd0|glx.*|gmp10|ice6|llvm\d+|lz4-1|md0|pciaccess0|sensors.*|sm6|tinfo6|uuid1|vulkan1|wayland-.*|x11-data|xaw7|xcb-.*|xft2|xinerama1|xkbfile1|xml2|xmu.*|xpm4|xshmfence1|xt6t64|xtst6|xv1|xxf86.*|z3-4)|lsb-base|mesa-.*|openssl-.*|sysvinit-utils|x11-.*|xdg-utils)$/;
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

export interface CaptureImageOptions extends MadeImageOptions {
  /** Name and tag; empty: pictures are not taken. */
  image: string;
}

/** Sees to it that the engine has the image in which pictures of sites are taken; see `ensureMadeImage`. */
export const ensureCaptureImage = async ({
  image,
  ...options
}: CaptureImageOptions): Promise<"none" | "present" | "pulled" | "built"> =>
  image === ""
    ? "none"
    : ensureMadeImage(
        image,
        {
          ...{ kind: "capture", variant: "", userId: user.id, entry: `/${ownDir}/entry.sh`, lay },
          recipe: await recipeDigest(),
        },
        options,
      );

/** Names everything that the image is made of but the packages' versions. */
async function recipeDigest(): Promise<string> {
  const parts = [process.arch, user.id, packages, `${without}`, programs, `${droppedOfBrowser}`, unread];
  const hash = createHash("sha256").update(JSON.stringify(parts));
  return hash
    .update(await readFile(entrySource))
    .digest("hex")
    .slice(0, 16);
}

/** Everything that the image has, below the directory `root`. */
async function lay(root: string, { cacheDir, signal }: { cacheDir: string; signal: AbortSignal }): Promise<void> {
  await layPackages(root, { suite: "trixie", packages, without, cacheDir, signal });
  await removeBut(join(root, "usr/bin"), (name) => programs.includes(name));
  await rm(join(root, "usr/sbin"), { recursive: true, force: true });
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
