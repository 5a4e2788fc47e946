import type { Facts } from "./facts.ts";
import type { Form, Framework } from "./form.ts";
import { frameworkOf } from "./framework.ts";
import { type PackageJson, parsePackageJson } from "./package-json.ts";
import { detectPackageManager, type PackageManager, pinnedManager, scriptCommand } from "./package-manager.ts";

/** Longer files of these names are not what they seem. */
export const tellingBytesMax = 1024 * 1024;

const telling =
  /^(?:.*\/)?(?:package\.json|angular\.json|app\.json|pnpm-workspace\.yaml|yarn\.lock|Dockerfile|\.eleventy\.c?js|[\w.-]+\.config\.[cm]?[jt]s|(?:src\/)?(?:index|main|server|app)\.[cm]?[jt]s)$/;

/**
 * Those of `files` of which not only that they are there, but what they say, tells something of a project: at most `max`,
 * the packages' own first. How deep that directory may be which somebody has `named` makes no difference to what is in
 * it or around it.
 */
export function tellingFiles(files: Iterable<string>, max: number, named = ""): string[] {
  const around = new Set(parents(named));
  const depth = (path: string): number => {
    if (around.has(directoryOf(path))) return 1;
    return (path.startsWith(`${named}/`) ? path.slice(named.length + 1) : path).split("/").length;
  };
  const rank = (path: string): number => (path.endsWith("package.json") ? 0 : 100) + depth(path);
  return [...files]
    .filter((path) => telling.test(path) && depth(path) <= depthMax)
    .sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1))
    .slice(0, max);
}

/** Those of a tree's `files` that tell whether, and how, what lies in `directory` is built: its own, and those around it. */
export function tellingOfBuild(files: Iterable<string>, directory: string): string[] {
  const own = directory === "." ? "" : directory;
  const places = new Set([own, ...parents(own)]);
  return tellingFiles(
    [...files].filter((path) => places.has(directoryOf(path))),
    placeMax,
    own,
  );
}

/** "" for the top. */
const directoryOf = (path: string): string => path.slice(0, Math.max(path.lastIndexOf("/"), 0));

/** Nobody has as many of these files in a directory and those around it. */
const placeMax = 200;

/** The directories around one, from the inside out: "a/b" has "a" and "", which is the top. */
export function parents(directory: string): string[] {
  const parts = directory === "" ? [] : directory.split("/");
  return parts.map((_, index) => parts.slice(0, parts.length - 1 - index).join("/"));
}

/** Apps of a workspace are a few directories below its top. */
const depthMax = 6;

/** Whether a path is a source of the project: not installed, and no history. */
export const isSource = (path: string): boolean =>
  !path.split("/").some((part) => part === "node_modules" || part === ".git");

/** What one directory of `facts` holds. "" is all. */
export function within(facts: Facts, directory: string): Facts {
  if (directory === "") return facts;
  const inside = (path: string): string[] =>
    path.startsWith(`${directory}/`) ? [path.slice(directory.length + 1)] : [];
  return {
    files: new Set([...facts.files].flatMap(inside)),
    texts: new Map([...facts.texts].flatMap(([path, text]) => inside(path).map((name) => [name, text] as const))),
  };
}

/** A directory as a Node project. */
export type Project = Facts & {
  manifest: PackageJson | null;
  manager: PackageManager;
  framework: Framework | null;
  /** How the framework is used here; null without a framework. */
  form: Form | null;
  has(name: string): boolean;
  /** The command that runs a script of `package.json`. */
  runScript(name: string): string;
};

/**
 * @param around what the workspace around it tells: what installs its packages, and those that it need not name itself
 */
export function readProject(facts: Facts, around: Around = {}): Project {
  const own = parsePackageJson(facts.texts.get("package.json") ?? "");
  const has = (name: string): boolean => facts.files.has(name);
  const manager =
    around.manager ??
    detectPackageManager({ has, pinned: pinnedManager(own), yarnLock: facts.texts.get("yarn.lock") ?? null }).manager;
  const { manifest, framework, form } = withFramework(facts, own, around.inherited);
  return { ...facts, manifest, manager, framework, form, has, runScript: (name) => scriptCommand(manager, name) };
}

export interface Around {
  manager?: PackageManager;
  inherited?: ReadonlySet<string>;
}

function withFramework(facts: Facts, own: PackageJson | null, inherited: ReadonlySet<string> | undefined) {
  const found = own === null ? null : frameworkOf(facts, own);
  if (found !== null || own === null || inherited === undefined)
    return { manifest: own, framework: found?.framework ?? null, form: found?.form ?? null };
  // Of all that the workspace has installed, the one that is set up in this directory.
  const manifest = { ...own, dependencies: new Set([...own.dependencies, ...inherited]) };
  const meant = frameworkOf(facts, manifest, (each) =>
    [...facts.files].some((path) => path.startsWith(`${each.buildProgram?.split(" ")[0]}.config.`)),
  );
  if (meant === null) return { manifest: own, framework: null, form: null };
  return { manifest, framework: meant.framework, form: meant.form };
}
