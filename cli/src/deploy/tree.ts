import type { Dirent } from "node:fs";
import { lstat, readdir, readlink, stat } from "node:fs/promises";
import { join, sep } from "node:path";
import { createArchiveRules, limits } from "@svc/proto";
import { isFileError } from "@svc/runtime/durable-file";
import { readTextFile } from "../files.ts";
import { fixedRule, type IgnoreRules, ignoredBy, noRules, type Wanted, withIgnoreFile } from "./ignore.ts";
import { readFailure, refuse } from "./unreadable.ts";

/** One thing to pack. `path` is its name in the archive, `file` where it lies now. */
export type Entry =
  | { kind: "file"; path: string; file: string; executable: boolean; sizeBytes: number }
  | { kind: "link"; path: string; target: string };

/** What to pack: everything below `directory`, under the names that it has below `prefix` ("" or "apps/web/"). */
export interface Tree {
  directory: string;
  prefix: string;
  wanted: Wanted;
}

/** Told what is not packed. A directory's path ends in "/", and what is in it is not told. */
export interface Observer {
  /** Neither a file, a directory nor a link: a socket, a pipe, a device. */
  special(path: string): void;
  /** Left out, and by which rule. */
  leftOut(path: string, why: string): void;
}

const ignoreFileBytesMax = 1024 * 1024;

/**
 * The entries of a tree in the order of their bytes. DEPLOY_TRIGGER_FAILED for what an archive must not or cannot
 * hold, before anything is read of it.
 */
export async function listTree(tree: Tree, observer: Observer): Promise<Entry[]> {
  const entries: Entry[] = [];
  await walkTree(tree, {
    leftOut: observer.leftOut,
    take: async (file, path, found) => {
      await addEntry(entries, tree, file, path, found, observer);
      if (entries.length > limits.archiveEntriesMax)
        throw refuse(`There are more than ${limits.archiveEntriesMax} files below ${tree.directory}`);
    },
  });
  entries.sort(byBytes);
  holdAgainstRules(entries);
  return entries;
}

/** Looks on while a tree is walked. */
export interface Walker {
  /** Told of each directory that goes along, before what is in it; `isLeftOut` knows what does not, by its name there. */
  enter?(directory: string, isLeftOut: (name: string, isDirectory: boolean) => boolean): void;
  /** Told of whatever else goes along: `file` is where it lies, `path` the same from the tree's root. */
  take?(file: string, path: string, found: Dirent): Promise<void>;
  leftOut?(path: string, why: string): void;
}

/** Goes through all of a tree that goes along, as the ignore files have it. */
export async function walkTree(tree: Tree, walker: Walker): Promise<void> {
  const { fileName, rules: outer } = await outerRules(tree);
  const visit = async (directory: string, path: string, above: IgnoreRules, depth: number): Promise<void> => {
    if (depth > limits.archiveDepthMax) throw refuse(`${path} is more than ${limits.archiveDepthMax} directories deep`);
    const names = await listDirectory(directory, path);
    const own = names.some((each) => each.name === fileName && each.isFile())
      ? await readTextFile(join(directory, fileName), ignoreFileBytesMax)
      : null;
    const at = `${tree.prefix}${path === "" ? "" : `${path}/`}${fileName}`;
    const rules = own === null ? above : withIgnoreFile(above, at, own);
    const pathOf = (name: string) => (path === "" ? name : `${path}/${name}`);
    walker.enter?.(directory, (name, isDirectory) => whyLeftOut(tree, rules, pathOf(name), isDirectory) !== null);
    for (const each of names) {
      const child = pathOf(each.name);
      const isDirectory = each.isDirectory();
      const why = whyLeftOut(tree, rules, child, isDirectory);
      if (why !== null) walker.leftOut?.(isDirectory ? `${child}/` : child, why);
      else if (isDirectory) await visit(join(directory, each.name), child, rules, depth + 1);
      else await walker.take?.(join(directory, each.name), child, each);
    }
  };
  await visit(tree.directory, "", outer, 0);
}

const listDirectory = (directory: string, path: string): Promise<Dirent[]> =>
  readdir(directory, { withFileTypes: true }).catch((thrown: unknown) => {
    throw readFailure(path === "" ? directory : path, thrown);
  });

/** The order of UTF-8 bytes, the same on every machine whatever its language. */
function byBytes({ path: left }: Entry, { path: right }: Entry): number {
  for (let at = 0; at < left.length && at < right.length; at++) {
    const difference = left.charCodeAt(at) - right.charCodeAt(at);
    // Surrogates stand before U+E000 to U+FFFF in UTF-16, but mean characters after those.
    if (difference !== 0) return isHigh(left, at) === isHigh(right, at) ? difference : isHigh(left, at) ? 1 : -1;
  }
  return left.length - right.length;
}

const isHigh = (text: string, at: number): boolean => (text.charCodeAt(at) & 0xf800) === 0xd800;

/** What the platform would refuse is better known before it is sent. */
function holdAgainstRules(entries: readonly Entry[]): void {
  const judge = createArchiveRules(Number.MAX_SAFE_INTEGER);
  for (const entry of entries) {
    const isFile = entry.kind === "file";
    const verdict = judge({
      name: entry.path,
      type: isFile ? "file" : "symlink",
      mode: 0o644,
      sizeBytes: isFile ? entry.sizeBytes : 0,
      linkname: isFile ? "" : entry.target,
    });
    if ("refuse" in verdict) throw refuse(`${entry.path} ${verdict.refuse}`);
  }
}

/** The rule that leaves `path` out of the archive; null when it goes along. */
function whyLeftOut(tree: Tree, rules: IgnoreRules, path: string, isDirectory: boolean): string | null {
  const fixed = fixedRule(path, tree.wanted);
  if (fixed === null) return ignoredBy(rules, `${tree.prefix}${path}`, isDirectory);
  return fixed === "take" ? null : fixed.leave;
}

/**
 * Which ignore files count, and those that lie above the tree in its repository. A `.svcignore` in the
 * tree's root stands in for every `.gitignore`.
 */
async function outerRules(tree: Tree): Promise<{ fileName: string; rules: IgnoreRules }> {
  const own = await readRules(join(tree.directory, ".svcignore"));
  if (own !== null) return { fileName: ".svcignore", rules: noRules };
  const fileName = ".gitignore";
  const parts = tree.prefix.split("/").filter((part) => part !== "");
  let rules = noRules;
  for (const at of parts.keys()) {
    const directory = join(tree.directory, ...parts.slice(at).map(() => ".."));
    const text = await readRules(join(directory, fileName));
    if (text !== null) rules = withIgnoreFile(rules, [...parts.slice(0, at), fileName].join("/"), text);
  }
  // Whoever deploys a directory that its repository ignores as a whole (a build's output, a copy) means it.
  const isLeftOut = parts.length > 0 && ignoredBy(rules, parts.join("/"), true) !== null;
  return { fileName, rules: isLeftOut ? noRules : rules };
}

/** The text of an ignore file; null when there is none. A pipe of that name is not waited for. */
async function readRules(path: string): Promise<string | null> {
  const found = await stat(path).catch((thrown: unknown) => {
    if (isFileError(thrown, "ENOENT", "ENOTDIR")) return null;
    throw readFailure(path, thrown);
  });
  return found?.isFile() === true ? readTextFile(path, ignoreFileBytesMax) : null;
}

async function addEntry(
  entries: Entry[],
  tree: Tree,
  file: string,
  path: string,
  found: Dirent,
  observer: Observer,
): Promise<void> {
  const name = `${tree.prefix}${path}`;
  try {
    if (found.isSymbolicLink()) {
      const target = (await readlink(file)).split(sep).join("/");
      if (!staysInside(path, target))
        throw refuse(`${path} is a symbolic link that leaves what is deployed (${target})`);
      entries.push({ kind: "link", path: name, target });
    } else if (found.isFile()) {
      const { mode, size } = await lstat(file);
      entries.push({ kind: "file", path: name, file, executable: (mode & 0o100) !== 0, sizeBytes: size });
    } else observer.special(path);
  } catch (thrown) {
    throw readFailure(path, thrown);
  }
}

/**
 * Whether the link at `path` with `target` stays in its tree. Steps up may only come first: after a
 * name, which may be a link itself, nobody can tell from the text where `..` leads.
 */
export function staysInside(path: string, target: string): boolean {
  if (target === "" || target.startsWith("/") || /^[A-Za-z]:/.test(target) || /[\0\\]/.test(target)) return false;
  const steps = target.split("/").filter((step) => step !== "" && step !== ".");
  const ups = steps.findIndex((step) => step !== "..");
  const up = ups === -1 ? steps.length : ups;
  return !steps.slice(up).includes("..") && up <= path.split("/").length - 1;
}
