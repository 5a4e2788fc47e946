import { randomBytes } from "node:crypto";
import type { Stats } from "node:fs";
import { mkdir, readdir, rename, rm, stat, statfs } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { limits } from "@svc/proto/limits";
import { ruleFiles } from "@svc/proto/site-rules";
import { isFileError, syncDirectory } from "@svc/runtime/durable-file";
import type { Log } from "../log.ts";
import { isBundleName } from "../names.ts";
import { linkImmutables } from "./immutables.ts";
import { type BundleBounds, uselessBundles } from "./keep.ts";
import { unpack } from "./unpack.ts";
import { readUses, writeUses } from "./uses.ts";

/** Unpacked bundles, each in a directory named after its digest. A directory under that name is complete. */
export interface BundleStore {
  /** Directory that holds, under the name of each bundle, those of its files that never change. */
  immutablesDir: string;
  has(name: string): boolean;
  /** Whether one that is present has files of rules. */
  hasRules(name: string): boolean;
  /** Unpacks the archive under `name`; all of it is in place and on disk afterwards, or nothing. */
  add(name: string, archive: Readable, signal: AbortSignal): Promise<void>;
  /**
   * Removes what is not in use and not worth keeping either; see `uselessBundles`.
   *
   * @param inUse bundle -> the projects whose routes need it
   * @param spared stay in any case, without being in use
   */
  collect(
    inUse: ReadonlyMap<string, ReadonlySet<string>>,
    projects: ReadonlySet<string> | null,
    nowMs: number,
    spared?: ReadonlySet<string>,
  ): Promise<void>;
}

const boundsUsed: BundleBounds = { kept: limits.rollbackTargetsKept, graceMs: 10 * 60_000 };
/** A bundle is refused when it would leave less than this. */
const freeBytesMin = 512 * 1024 ** 2;

const usesName = ".uses.json";
const immutablesName = ".immutable";

export async function openBundleStore(dir: string, log: Log, bounds: BundleBounds = boundsUsed): Promise<BundleStore> {
  // Caddy may run as another user.
  await mkdir(dir, { recursive: true, mode: 0o755 });
  const present = new Set<string>();
  const ruled = new Set<string>();
  for (const name of await readdir(dir)) {
    if (isBundleName(name)) {
      if (await hasRuleFile(join(dir, name))) ruled.add(name);
      present.add(name);
    } else if (name !== usesName && name !== immutablesName)
      await rm(join(dir, name), { recursive: true, force: true });
  }
  const immutablesDir = join(dir, immutablesName);
  await completeImmutables(dir, immutablesDir, present);
  const usesFile = join(dir, usesName);
  const uses = await readUses(usesFile, log);
  let lastInUse: ReadonlyMap<string, ReadonlySet<string>> = new Map();

  async function requireRoom(): Promise<void> {
    const { bavail, bsize } = await statfs(dir);
    if (bavail * bsize < freeBytesMin) throw new Error("the edge has too little disk space");
  }

  return {
    immutablesDir,
    has: (name) => present.has(name),
    hasRules: (name) => ruled.has(name),
    async add(name, archive, signal) {
      const temporary = join(dir, `.${name}.${randomBytes(6).toString("hex")}`);
      await mkdir(temporary, { mode: 0o755 });
      try {
        // While it is written as well: nobody knows what comes out of it, and others are unpacked beside it.
        await unpack(archive, temporary, signal, requireRoom);
        await placeImmutables(temporary, immutablesDir, name);
        await rename(temporary, join(dir, name));
      } catch (cause) {
        archive.destroy();
        await rm(temporary, { recursive: true, force: true });
        throw cause;
      }
      await syncDirectory(dir);
      if (await hasRuleFile(join(dir, name))) ruled.add(name);
      present.add(name);
      log.info({ bundle: name }, "bundle in place");
    },
    async collect(inUse, projects, nowMs, spared = new Set()) {
      let changed = false;
      for (const [name, users] of inUse) {
        const byProject = uses.get(name) ?? new Map<string, number>();
        uses.set(name, byProject);
        for (const project of users) {
          // Written when a use begins and when it ends: in between the time would only be refined.
          changed ||= !byProject.has(project);
          byProject.set(project, nowMs);
        }
      }
      for (const name of lastInUse.keys()) changed ||= !inUse.has(name);
      lastInUse = inUse;
      const idle = await Promise.all(
        [...present]
          .filter((name) => !inUse.has(name) && !spared.has(name))
          .map(async (name) => ({
            name,
            usedBy: uses.get(name) ?? new Map<string, number>(),
            placedAtMs: await placedAt(join(dir, name)),
          })),
      );
      for (const name of uselessBundles(idle, projects, nowMs, bounds)) {
        present.delete(name);
        ruled.delete(name);
        // Renamed first, so that what is under a bundle's name is always complete.
        const doomed = join(dir, `.${name}.removed`);
        await rename(join(dir, name), doomed);
        await rm(doomed, { recursive: true, force: true });
        await rm(join(immutablesDir, name), { recursive: true, force: true });
        log.info({ bundle: name }, "unused bundle removed");
      }
      for (const name of uses.keys()) {
        if (present.has(name) || inUse.has(name)) continue;
        uses.delete(name);
        changed = true;
      }
      if (changed) await writeUses(usesFile, uses);
    },
  };
}

async function hasRuleFile(bundle: string): Promise<boolean> {
  for (const name of ruleFiles) if ((await lookAt(join(bundle, name)))?.isFile() === true) return true;
  return false;
}

/** Removes what belongs to no bundle, and makes what bundles of an earlier version lack. */
async function completeImmutables(dir: string, immutablesDir: string, bundles: ReadonlySet<string>): Promise<void> {
  await mkdir(immutablesDir, { recursive: true, mode: 0o755 });
  const placed = new Set(await readdir(immutablesDir));
  for (const name of placed) {
    if (!bundles.has(name)) await rm(join(immutablesDir, name), { recursive: true, force: true });
  }
  for (const name of bundles) if (!placed.has(name)) await placeImmutables(join(dir, name), immutablesDir, name);
}

/** All of them are in place and on disk afterwards, or nothing. */
async function placeImmutables(bundle: string, immutablesDir: string, name: string): Promise<void> {
  const temporary = join(immutablesDir, `.${name}.${randomBytes(6).toString("hex")}`);
  try {
    await linkImmutables(bundle, temporary);
    await rm(join(immutablesDir, name), { recursive: true, force: true });
    await rename(temporary, join(immutablesDir, name));
  } catch (cause) {
    await rm(temporary, { recursive: true, force: true });
    throw cause;
  }
  await syncDirectory(immutablesDir);
}

const placedAt = async (path: string): Promise<number> => (await lookAt(path))?.ctimeMs ?? 0;

/** Null when there is nothing. */
async function lookAt(path: string): Promise<Stats | null> {
  try {
    return await stat(path);
  } catch (cause) {
    if (isFileError(cause, "ENOENT")) return null;
    throw cause;
  }
}
