import { constants } from "node:fs";
import { access, readdir, readFile, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import {
  detectPackageManager,
  lockFiles,
  type PackageManager,
  parsePackageJson,
  pinnedManager,
} from "@svc/proto/frameworks";
import { isFileError } from "@svc/runtime/durable-file";
import { ownProgram, type ProgramFile } from "@svc/runtime/programs";
import { readTextFile } from "../files.ts";
import type { Seen } from "./detection.ts";

const textBytesMax = 1024 * 1024;
const isConfig = (name: string): boolean => /^(?:vite|astro|nuxt)\.config\.[cm]?[jt]s$/.test(name);

/** What `directory` shows of the app in it. `top` is where the search for what installs its packages ends. */
export async function look(directory: string, top: string): Promise<Seen> {
  const names = new Set(await readdir(directory).catch(nothingThere));
  const text = names.has("package.json") ? await readTextFile(join(directory, "package.json"), textBytesMax) : null;
  const manifest = text === null ? null : parsePackageJson(text);
  const configs = new Map<string, string>();
  for (const name of names)
    if (isConfig(name)) configs.set(name, (await readTextFile(join(directory, name), textBytesMax)) ?? "");
  const pinned = pinnedManager(manifest);
  const manager = manifest === null ? "npm" : await managerOf(directory, top, pinned);
  return { manifest, manager, names, configs };
}

/** What installs the packages of `directory`: the lock file that is nearest above says it. */
async function managerOf(
  directory: string,
  top: string,
  pinned: ReturnType<typeof pinnedManager>,
): Promise<PackageManager> {
  for (let at = directory; ; at = dirname(at)) {
    const names = new Set(await readdir(at).catch(nothingThere));
    const yarnLock = names.has("yarn.lock") ? await readFile(join(at, "yarn.lock"), "utf8") : null;
    const isLocked = lockFiles.some((name) => names.has(name));
    if (isLocked || at === top || at === dirname(at))
      return detectPackageManager({ has: (name) => names.has(name), pinned, yarnLock }).manager;
  }
}

function nothingThere(thrown: unknown): string[] {
  if (isFileError(thrown, "ENOENT", "ENOTDIR", "EACCES")) return [];
  throw thrown;
}

/** Where programs lie that the packages of `directory` and of those above bring, the nearest first. */
export function programFolders(directory: string): string[] {
  const above = dirname(directory);
  const own = join(directory, "node_modules", ".bin");
  return above === directory ? [own] : [own, ...programFolders(above)];
}

/** The file of a program in the first of `folders` that has it; null when none has. */
export async function findProgram(name: string, folders: readonly string[]): Promise<ProgramFile | null> {
  for (const folder of folders) {
    const file = join(folder, name);
    if (await isProgram(file)) return ownProgram(file);
  }
  return null;
}

export async function isProgram(file: string): Promise<boolean> {
  try {
    await access(file, constants.X_OK);
    return (await stat(file)).isFile();
  } catch (thrown) {
    if (isFileError(thrown, "ENOENT", "ENOTDIR", "EACCES", "ELOOP")) return false;
    throw thrown;
  }
}
