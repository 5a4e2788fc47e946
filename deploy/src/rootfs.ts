import { existsSync } from "node:fs";
import {
  chmod,
  copyFile,
  cp,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Clock } from "@svc/runtime/clock";
import { run } from "@svc/runtime/command";
import { mirrorIn } from "./mirror.ts";

/** Releases of Debian that the platform runs on, by their code names. */
export type Suite = "bookworm" | "trixie";

export interface DebianOptions {
  clock: Clock;
  suite: Suite;
  /** What it has besides the packages without which nothing is a Debian. */
  packages: readonly string[];
  cacheDir: string;
  signal: AbortSignal;
}

/** An older cached system would lack too many security updates. */
const cacheLifeMs = 30 * 24 * 3600 * 1000;

/** Needed only to install more packages; apt makes them anew. */
const dropped = [
  "var/lib/apt/lists",
  "var/cache/apt",
  "var/cache/debconf",
  "usr/share/doc",
  "usr/share/man",
  "usr/share/locale",
  "var/log",
];

export async function isFresh(clock: Clock, path: string): Promise<boolean> {
  const found = await stat(path).catch(() => null);
  return found !== null && clock.now().getTime() - found.mtimeMs < cacheLifeMs;
}

/** What the machine's own apt is told about where packages are. */
export async function readSources(): Promise<string> {
  const dir = "/etc/apt/sources.list.d";
  const names = await readdir(dir).catch(() => []);
  const files = ["/etc/apt/sources.list", ...names.toSorted().map((name) => join(dir, name))];
  return (await Promise.all(files.map((file) => readFile(file, "utf8").catch(() => "")))).join("\n");
}

/** A small Debian as a tar file in `cacheDir`. Needs root; about half a minute unless cached. */
async function debianTarball({ clock, suite, packages, cacheDir, signal }: DebianOptions): Promise<string> {
  const tarball = join(cacheDir, `${["debian", suite, process.arch, ...packages].join("-")}.tar`);
  if (await isFresh(clock, tarball)) return tarball;
  await mkdir(cacheDir, { recursive: true });
  const work = await mkdtemp(join(cacheDir, "debian-"));
  try {
    const root = join(work, "root");
    const include = packages.length === 0 ? [] : [`--include=${packages.join(",")}`];
    const mirror = mirrorIn(await readSources());
    const from = mirror === null ? [] : [mirror];
    await run(["debootstrap", "--variant=minbase", ...include, suite, root, ...from], { timeoutMs: 600_000, signal });
    for (const path of dropped) {
      await rm(join(root, path), { recursive: true, force: true });
      await mkdir(join(root, path), { recursive: true });
    }
    // These name the machine that built it; whoever runs it provides its own.
    for (const path of ["etc/resolv.conf", "etc/hostname"]) await rm(join(root, path), { force: true });
    await run(["tar", "--create", "--numeric-owner", "--file", join(work, "debian.tar"), "--directory", root, "."], {
      signal,
    });
    await rename(join(work, "debian.tar"), tarball);
    return tarball;
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** Unpacks a small Debian into the directory `root`. Needs root. */
export async function layDebian(root: string, options: DebianOptions): Promise<void> {
  const tarball = await debianTarball(options);
  const unpack = ["--extract", "--numeric-owner", "--preserve-permissions", "--file", tarball, "--directory", root];
  await run(["tar", ...unpack], { signal: options.signal });
}

const npmVersion = "11.21.2";

/** Unpacked npm; the registry's checksum is verified by npm itself. */
async function fetchNpm(cacheDir: string, signal: AbortSignal): Promise<string> {
  const dir = join(cacheDir, `npm-${npmVersion}`);
  if ((await stat(join(dir, "package.json")).catch(() => null)) !== null) return dir;
  const work = await mkdtemp(join(cacheDir, "npm-"));
  try {
    await run(["npm", "pack", `npm@${npmVersion}`, "--silent", "--pack-destination", work], {
      cwd: work,
      timeoutMs: 120_000,
      signal,
    });
    const [archive] = await readdir(work);
    if (archive === undefined) throw new Error(`npm pack produced no archive of npm@${npmVersion}`);
    await run(["tar", "--extract", "--no-same-owner", "--file", join(work, archive), "--directory", work], { signal });
    await rename(join(work, "package"), dir);
    return dir;
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/**
 * Writes below `dir` what makes a Debian a Node image: `node`, `npm` and `npx` in /usr/local, and the user `node`.
 * `nodeBinary` is copied, so the image runs the very Node that the platform runs.
 */
export async function layNode(
  dir: string,
  options: { nodeBinary: string; cacheDir: string; signal: AbortSignal },
): Promise<void> {
  const bin = join(dir, "usr/local/bin");
  const modules = join(dir, "usr/local/lib/node_modules");
  await mkdir(bin, { recursive: true });
  await mkdir(modules, { recursive: true });
  await copyFile(options.nodeBinary, join(bin, "node"));
  await chmod(join(bin, "node"), 0o755);
  await cp(await fetchNpm(options.cacheDir, options.signal), join(modules, "npm"), {
    recursive: true,
  });
  for (const name of ["npm", "npx"]) {
    await chmod(join(modules, `npm/bin/${name}-cli.js`), 0o755);
    await symlink(`../lib/node_modules/npm/bin/${name}-cli.js`, join(bin, name));
  }
  // Programs and Dockerfiles often ask for `nodejs`.
  await symlink("node", join(bin, "nodejs"));
  const user = ["--uid", "1000", "--user-group", "--create-home", "--shell", "/bin/bash", "node"];
  await run(["chroot", dir, "useradd", ...user], { signal: options.signal });
  const notice = join(dir, "usr/local/share/svc-base-image");
  await mkdir(dirname(notice), { recursive: true });
  await writeFile(notice, "Built locally by svc because no registry answered for this image name.\n");
}

/** How node-gyp marks headers that it has fetched itself; every version since 2020 takes the same. */
const headersVersion = "11\n";

/**
 * Writes the headers of the Node that `nodeBinary` is of below `dir`, if it came with any, to where native modules that
 * root compiles look for them: whoever builds images here may reach no place to fetch them from.
 */
export async function layHeaders(dir: string, nodeBinary: string): Promise<void> {
  const from = join(dirname(dirname(nodeBinary)), "include/node");
  if (!existsSync(join(from, "node.h"))) return;
  await cp(from, join(dir, "usr/local/include/node"), { recursive: true });
  const fetched = join(dir, "root/.cache/node-gyp", process.versions.node);
  await mkdir(fetched, { recursive: true });
  await symlink("/usr/local/include", join(fetched, "include"));
  await writeFile(join(fetched, "installVersion"), headersVersion);
}
