import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { CommandError, run } from "@svc/runtime/command";
import { argv } from "@svc/runtime/programs";
import { mirrorIn, securityMirrorIn } from "./mirror.ts";
import { readSources, type Suite } from "./rootfs.ts";

const indexMs = 120_000;
const downloadMs = 600_000;

export interface PackageOptions {
  suite: Suite;
  packages: readonly string[];
  /** What their scripts or their documentation need and their programs do not, by name. */
  without: RegExp;
  cacheDir: string;
  signal: AbortSignal;
}

/** What a tree of packages unpacked with care for nothing but its programs has no use for. */
const dropped = [
  "etc/init.d",
  "etc/logrotate.d",
  "usr/share/bug",
  "usr/share/doc",
  "usr/share/lintian",
  "usr/share/man",
];

/** Since trixie every package has its files below /usr; these names are for whoever looks for them elsewhere. */
const linkedToUsr = ["bin", "lib", "lib64", "sbin"];

/**
 * Unpacks Debian packages, and what they depend on, below the directory `root`. None of their scripts runs, so no user is
 * added, no server set up or started, and nothing of this machine gets into it. The tree is no Debian: it has no package
 * manager, but says in the place where scanners look for it which packages it is of.
 */
export async function layPackages(root: string, options: PackageOptions): Promise<void> {
  const { suite, packages, without, cacheDir, signal } = options;
  await mkdir(cacheDir, { recursive: true });
  const work = await mkdtemp(join(cacheDir, "packages-"));
  try {
    const settings = await writeSettings(work, { suite, kind: "deb" });
    const apt = (...words: string[]) => argv("apt-get", ...settings, ...words);
    await run(apt("update"), { timeoutMs: indexMs, signal });
    const { stdout } = await run(apt("--simulate", "install", ...packages), { signal });
    const names = [...stdout.matchAll(/^Inst (\S+)/gm)].map(([, name = ""]) => name.replace(/:.*$/, ""));
    const wanted = names.filter((name) => !without.test(name)).toSorted();
    const downloads = join(work, "downloads");
    await mkdir(downloads);
    await run(apt("download", ...wanted), { cwd: downloads, timeoutMs: downloadMs, signal });
    await layLinks(root);
    await mkdir(join(root, "var/lib/dpkg/status.d"), { recursive: true });
    for (const file of (await readdir(downloads)).toSorted()) {
      const path = join(downloads, file);
      await run(argv("dpkg-deb", "--extract", path, root), { signal });
      const { stdout: control } = await run(argv("dpkg-deb", "--field", path), { signal });
      await writeFile(join(root, "var/lib/dpkg/status.d", file.split("_")[0] ?? file), control);
    }
    for (const path of dropped) await rm(join(root, path), { recursive: true, force: true });
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/**
 * Downloads what a Debian package is made of into the directory `dir`, as it is: one file that ends in `.dsc`, and those that
 * this names. A mirror may not have the sources of an update for security; then they are those of the release.
 *
 * @returns whether they are those of the release although there is an update
 */
export async function fetchSource(
  dir: string,
  { suite, name, cacheDir, signal }: { suite: Suite; name: string; cacheDir: string; signal: AbortSignal },
): Promise<{ isOutdated: boolean }> {
  const from = async (withUpdates: boolean): Promise<void> => {
    const work = await mkdtemp(join(cacheDir, "packages-"));
    try {
      const settings = await writeSettings(work, { suite, kind: "deb-src", withUpdates });
      await run(argv("apt-get", ...settings, "update"), { timeoutMs: indexMs, signal });
      const download = ["source", "--download-only", name];
      await run(argv("apt-get", ...settings, ...download), { cwd: dir, timeoutMs: downloadMs, signal });
    } finally {
      await rm(work, { recursive: true, force: true });
    }
  };
  try {
    await from(true);
    return { isOutdated: false };
  } catch (cause) {
    if (!(cause instanceof CommandError)) throw cause;
    for (const left of await readdir(dir)) await rm(join(dir, left), { force: true });
    await from(false);
    return { isOutdated: true };
  }
}

/** Arguments by which apt works in `work` on another release than the machine's, and leaves the machine's own state alone. */
async function writeSettings(
  work: string,
  { suite, kind, withUpdates = true }: { suite: Suite; kind: "deb" | "deb-src"; withUpdates?: boolean },
): Promise<string[]> {
  await mkdir(join(work, "state/lists/partial"), { recursive: true });
  await mkdir(join(work, "cache/archives/partial"), { recursive: true });
  // Nothing counts as installed, so that everything is taken along that something depends on.
  await writeFile(join(work, "status"), "");
  const sources = await readSources();
  const mirror = mirrorIn(sources);
  if (mirror === null) throw new Error("apt's sources on this machine name no mirror of Debian");
  const security = securityMirrorIn(sources);
  const lines = [
    `${kind} ${mirror} ${suite} main`,
    ...(security === null || !withUpdates ? [] : [`${kind} ${security} ${suite}-security main`]),
  ];
  await writeFile(join(work, "sources.list"), `${lines.join("\n")}\n`);
  const own = {
    "Dir::State": join(work, "state"),
    "Dir::State::status": join(work, "status"),
    "Dir::Cache": join(work, "cache"),
    "Dir::Etc::SourceList": join(work, "sources.list"),
    "Dir::Etc::SourceParts": "/dev/null",
    "APT::Install-Recommends": "false",
    // The directory is closed to the user that apt would otherwise become.
    "APT::Sandbox::User": "root",
    "Acquire::Languages": "none",
    "Acquire::Retries": "3",
  };
  return Object.entries(own).flatMap(([name, value]) => ["-o", `${name}=${value}`]);
}

async function layLinks(root: string): Promise<void> {
  for (const name of linkedToUsr) {
    await mkdir(join(root, "usr", name), { recursive: true });
    await symlink(`usr/${name}`, join(root, name));
  }
}
