import { lstat } from "node:fs/promises";
import { dirname, join, relative, resolve, sep } from "node:path";
import { isOciManifest, type Manifest, type ManifestProblem, parseManifest } from "@svc/proto";
import { isFileError } from "@svc/runtime/durable-file";
import { CliError } from "./errors.ts";
import { readTextFile, unreadableAs } from "./files.ts";

/** Where a manifest lies, or would lie. */
export interface ManifestPlace {
  /** Absolute path of the file. */
  file: string;
  /** Absolute path of its directory: what a deploy packs, and where `.svc` is. */
  directory: string;
  /**
   * Absolute path of the repository's root. Outside of one the working directory stands for it if the manifest lies below that;
   * null: so does the manifest's own directory.
   */
  repository: string | null;
  /** The directory from the repository's root, with `/`; "." for the root itself. */
  home: string;
  /** The file from the repository's root, with `/`. */
  path: string;
}

const manifestBytesMax = 1024 * 1024;

/** Finds the place of `manifest` (as `--manifest` gives it). The repository is the nearest directory above with a `.git`. */
export async function locateManifest(cwd: string, manifest: string): Promise<ManifestPlace> {
  const file = resolve(cwd, manifest);
  const directory = dirname(file);
  const repository = (await repositoryOf(directory)) ?? (isBelow(cwd, directory) ? resolve(cwd) : null);
  const root = repository ?? directory;
  return { file, directory, repository, home: pathFrom(root, directory), path: pathFrom(root, file) };
}

const isBelow = (above: string, directory: string): boolean => directory.startsWith(`${resolve(above)}${sep}`);

/** The path from a directory to what is in it, with `/`; "." for the directory itself. */
export const pathFrom = (directory: string, path: string): string =>
  relative(directory, path).split(sep).join("/") || ".";

async function repositoryOf(directory: string): Promise<string | null> {
  for (let at = directory; ; at = dirname(at)) {
    // A worktree or submodule has a file of that name instead of a directory.
    if (await exists(join(at, ".git"))) return at;
    if (at === dirname(at)) return null;
  }
}

async function exists(path: string): Promise<boolean> {
  try {
    await lstat(path);
    return true;
  } catch (thrown) {
    if (isFileError(thrown, "ENOENT", "ENOTDIR", "EACCES")) return false;
    throw thrown;
  }
}

/** The manifest at `place`, or null when there is no file. MANIFEST_INVALID names everything that is wrong with it. */
export async function findManifest(place: ManifestPlace): Promise<Manifest | null> {
  const text = await readManifestText(place.file);
  if (text === null) return null;
  const parsed = parseManifest(text, { path: place.path });
  if ("manifest" in parsed) return parsed.manifest;
  throw new CliError("MANIFEST_INVALID", [`${place.path} is not valid`, ...parsed.problems.map(describe)].join("\n"), {
    hint: "Mend the manifest, then check it with `svc manifest validate`",
  });
}

/** The same, but MANIFEST_NOT_FOUND when there is no file. */
export async function getManifest(place: ManifestPlace): Promise<Manifest> {
  const manifest = await findManifest(place);
  if (manifest !== null) return manifest;
  throw new CliError("MANIFEST_NOT_FOUND", `There is no manifest at ${place.file}`, {
    hint: "Create one with `svc init`, or name it with --manifest <path>",
  });
}

/** The text of the manifest, or null when there is no file. MANIFEST_INVALID for one that cannot be read. */
export async function readManifestText(file: string): Promise<string | null> {
  try {
    return await readTextFile(file, manifestBytesMax, { strict: true });
  } catch (thrown) {
    if (isFileError(thrown, "EISDIR")) return null;
    return unreadableAs("MANIFEST_INVALID", file)(thrown);
  }
}

const describe = ({ line, column, message }: ManifestProblem): string =>
  line === undefined ? `  ${message}` : `  line ${line}, column ${column ?? 1}: ${message}`;

/** The slug that a manifest names itself; null when it leaves the choice to the platform. */
export const explicitSlug = (manifest: Manifest): string | null =>
  isOciManifest(manifest) ? null : (manifest.slug ?? null);
