import type { Dirent } from "node:fs";
import { lstat, readdir, readlink } from "node:fs/promises";
import { join, sep } from "node:path";
import { CliError } from "../errors.ts";
import { readTextFile } from "../files.ts";
import { fixedRule, type IgnoreRules, isIgnored, noRules, type Wanted, withIgnoreFile } from "./ignore.ts";

/** One thing to pack. `path` is its name in the archive, `file` where it lies now. */
export type Entry =
  | { kind: "file"; path: string; file: string; executable: boolean; sizeBytes: number }
  | { kind: "link"; path: string; target: string };

/** What to pack: everything below `directory`, under the names that it has below `prefix` ("" or "apps/web/"). */
export type Tree = { directory: string; prefix: string; wanted: Wanted };

const entriesMax = 100_000;
const depthMax = 64;
const ignoreFileBytesMax = 1024 * 1024;

/**
 * The entries of a tree in the order of their bytes. What is neither file, directory nor link is left
 * out and told to `skipped`. DEPLOY_TRIGGER_FAILED for what an archive must not or cannot hold.
 */
export async function listTree(tree: Tree, skipped: (path: string) => void): Promise<Entry[]> {
  const entries: Entry[] = [];
  const { fileName, rules: outer } = await outerRules(tree);
  const visit = async (directory: string, path: string, above: IgnoreRules, depth: number): Promise<void> => {
    if (depth > depthMax) throw refuse(`${path} is more than ${depthMax} directories deep`);
    const names = await readdir(directory, { withFileTypes: true });
    const own = names.some((each) => each.name === fileName && each.isFile())
      ? await readTextFile(join(directory, fileName), ignoreFileBytesMax)
      : null;
    const rules = own === null ? above : withIgnoreFile(above, ruleDirectory(tree, path), own);
    for (const each of names) {
      const child = path === "" ? each.name : `${path}/${each.name}`;
      if (!isPacked(tree, rules, child, each.isDirectory())) continue;
      if (each.name.includes("\ufffd")) throw refuse(`${child} has a name that is not UTF-8`);
      if (each.isDirectory()) await visit(join(directory, each.name), child, rules, depth + 1);
      else await addEntry(entries, tree, join(directory, each.name), child, each, skipped);
      if (entries.length > entriesMax) throw refuse(`There are more than ${entriesMax} files below ${tree.directory}`);
    }
  };
  await visit(tree.directory, "", outer, 0);
  return entries.sort(byBytes);
}

/** The order of UTF-8 bytes, the same on every machine whatever its language. */
const byBytes = (left: Entry, right: Entry) => Buffer.compare(Buffer.from(left.path), Buffer.from(right.path));

function isPacked(tree: Tree, rules: IgnoreRules, path: string, isDirectory: boolean): boolean {
  const fixed = fixedRule(path, tree.wanted);
  return fixed === null ? !isIgnored(rules, `${tree.prefix}${path}`, isDirectory) : fixed === "take";
}

/** Where a rule file lies, from the root of the rules: the repository's root. */
const ruleDirectory = (tree: Tree, path: string): string => `${tree.prefix}${path}`.replace(/\/$/, "");

/**
 * Which ignore files count, and those that lie above the tree in its repository. A `.svcignore` in the
 * tree's root stands in for every `.gitignore`.
 */
async function outerRules(tree: Tree): Promise<{ fileName: string; rules: IgnoreRules }> {
  const own = await readTextFile(join(tree.directory, ".svcignore"), ignoreFileBytesMax);
  if (own !== null) return { fileName: ".svcignore", rules: noRules };
  const fileName = ".gitignore";
  const parts = tree.prefix.split("/").filter((part) => part !== "");
  let rules = noRules;
  for (const at of parts.keys()) {
    const directory = join(tree.directory, ...parts.slice(at).map(() => ".."));
    const text = await readTextFile(join(directory, fileName), ignoreFileBytesMax);
    if (text !== null) rules = withIgnoreFile(rules, parts.slice(0, at).join("/"), text);
  }
  // Whoever deploys a directory that its repository ignores as a whole (a build's output, a copy) means it.
  const isLeftOut = parts.length > 0 && isIgnored(rules, parts.join("/"), true);
  return { fileName, rules: isLeftOut ? noRules : rules };
}

async function addEntry(
  entries: Entry[],
  tree: Tree,
  file: string,
  path: string,
  found: Dirent,
  skipped: (path: string) => void,
): Promise<void> {
  const name = `${tree.prefix}${path}`;
  if (found.isSymbolicLink()) {
    const target = (await readlink(file)).split(sep).join("/");
    if (!staysInside(path, target)) throw refuse(`${path} is a symbolic link that leaves what is deployed (${target})`);
    entries.push({ kind: "link", path: name, target });
  } else if (found.isFile()) {
    const { mode, size } = await lstat(file);
    entries.push({ kind: "file", path: name, file, executable: (mode & 0o100) !== 0, sizeBytes: size });
  } else skipped(path);
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

const refuse = (message: string): CliError =>
  new CliError("DEPLOY_TRIGGER_FAILED", message, {
    hint: "Leave it out with a line in .svcignore; see what is packed with `svc deploy --dry-run`",
  });
