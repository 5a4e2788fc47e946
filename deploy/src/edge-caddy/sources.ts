import { cp, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "@svc/runtime/clock";
import { run } from "@svc/runtime/command";
import { argv, ownProgram } from "@svc/runtime/programs";
import { fetchSource, layPackages } from "../debian-packages.ts";
import { isFresh } from "../rootfs.ts";
import { edgeCaddyDir } from "./built.ts";
import { parseDescription, patchesIn } from "./description.ts";

const suite = "bookworm";
/** Below this, Go finds Caddy by the name that its own code calls it by. */
const caddyPath = "src/github.com/caddyserver/caddy/v2";
/** Besides the code of others: a compiler, and what unpacks and patches sources, so that the machine needs neither. */
const tools = ["golang-go", "patch", "xz-utils"];
/** What they depend on besides is for making Debian packages, or is on every Debian. */
const notNeeded = /^(?!golang-|patch$|xz-utils$)/;

/** A Go compiler, Caddy's sources, and all code that they use; nothing of it is installed. */
export interface CaddySources {
  /** Directory with what Debian packages hold. */
  root: string;
  /** Directories in which Go looks for code, the first for what is built. */
  goPath: string[];
  /** Of Caddy. */
  version: string;
}

/** Lays them down below `cacheDir`, unless they are there and fresh; of other people's hosts it asks the mirror of Debian only. */
export async function provideSources(options: {
  clock: Clock;
  cacheDir: string;
  signal: AbortSignal;
  log(line: string): void;
}): Promise<CaddySources> {
  const { clock, cacheDir, signal, log } = options;
  const dir = join(edgeCaddyDir(cacheDir), `sources-${suite}-${process.arch}`);
  if (!(await isFresh(clock, dir))) {
    log("getting Caddy's sources and a Go compiler from Debian");
    await mkdir(edgeCaddyDir(cacheDir), { recursive: true });
    const work = await mkdtemp(join(edgeCaddyDir(cacheDir), "sources-"));
    try {
      await lay(work, cacheDir, signal, log);
      await rm(dir, { recursive: true, force: true });
      await rename(work, dir);
    } finally {
      await rm(work, { recursive: true, force: true });
    }
  }
  const root = join(dir, "root");
  return {
    root,
    goPath: [join(dir, "gopath"), join(root, "usr/share/gocode")],
    version: (await readFile(join(dir, "version"), "utf8")).trim(),
  };
}

async function lay(work: string, cacheDir: string, signal: AbortSignal, log: (line: string) => void): Promise<void> {
  const source = join(work, "source");
  await mkdir(source);
  const { isOutdated } = await fetchSource(source, { suite, name: "caddy", cacheDir, signal });
  if (isOutdated) log("the mirror lacks the sources of the latest update of Caddy: these are the release's");
  const files = await readdir(source);
  const fileThat = (pattern: RegExp): string => {
    const found = files.find((name) => pattern.test(name));
    if (found === undefined) throw new Error(`Debian's sources of Caddy lack a file such as ${pattern.source}`);
    return join(source, found);
  };
  const { version, goPackages } = parseDescription(await readFile(fileThat(/\.dsc$/), "utf8"));
  const root = join(work, "root");
  await mkdir(root);
  await layPackages(root, { suite, packages: [...tools, ...goPackages], without: notNeeded, cacheDir, signal });
  const code = join(work, "gopath", caddyPath);
  const unpack = async (file: string, into: string, strip: number): Promise<void> => {
    await mkdir(into, { recursive: true });
    const by = file.endsWith(".xz") ? [`--use-compress-program=${join(root, "usr/bin/xz")}`] : [];
    const how = [
      "--extract",
      ...by,
      `--strip-components=${strip}`,
      "--no-same-owner",
      "--file",
      file,
      "--directory",
      into,
    ];
    await run(argv("tar", ...how), { signal });
  };
  await unpack(fileThat(/\.orig\.tar\.gz$/), code, 1);
  await unpack(fileThat(/\.orig-dist\.tar\.gz$/), join(code, "dist"), 1);
  await unpack(fileThat(/\.debian\.tar\.xz$/), join(work, "debian"), 1);
  const patches = join(work, "debian/patches");
  for (const name of patchesIn(await readFile(join(patches, "series"), "utf8"))) {
    const apply = ["--strip=1", "--batch", "--quiet", `--directory=${code}`, `--input=${join(patches, name)}`];
    await run([ownProgram(join(root, "usr/bin/patch")), ...apply], { signal });
  }
  // As Debian's own rules do: what its packages lack of others' code, and a page that was generated.
  const missing = join(work, "debian/missing-sources");
  await cp(missing, join(code, "vendor"), { recursive: true });
  const page = "fileserver/browse.html";
  await cp(join(missing, "caddy", page), join(code, "modules/caddyhttp", page));
  await rm(source, { recursive: true });
  await writeFile(join(work, "version"), `${version}\n`);
}
