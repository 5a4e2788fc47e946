import {
  type Facts,
  isSource,
  lockFiles,
  type PackageJson,
  type Project,
  parents,
  parsePackageJson,
  readProject,
  tellingBytesMax,
  tellingFiles,
  tracesApp,
} from "@svc/proto/frameworks";
import { TaskFailure } from "../placements/failure.ts";
import type { Archive } from "./archive.ts";
import { pathWithin } from "./context.ts";
import { detectPackages, installManifest, type Packages, settingsFiles } from "./packages.ts";

/** What an archive says about the Node project in one of its directories. */
export interface NodeProject {
  /** Where packages are installed: the project's directory, or that of the workspace it belongs to. */
  installRoot: string;
  /** Directory of the project below `installRoot`; empty when it is the same. */
  appDirectory: string;
  /** What kind of project it is. */
  app: Project;
  packages: Packages | null;
  /** What installing needs of every `package.json`, by its path below `installRoot`. */
  installManifests: ReadonlyMap<string, string>;
  /** The package manager's settings, one after the other: they may name variables. */
  settings: string;
  /** Whether Next is told to leave a traced copy of the app. */
  tracesApp: boolean;
}

/** Lock files of large workspaces have several megabytes. */
const textMaxBytes = 16 * 1024 * 1024;
/** Of the files that tell what a project is: nobody has as many of them in one directory. */
const tellingMax = 100;

/** Reads what there is of a Node project in the directory `root` of the archive. Throws TaskFailure for a broken package.json. */
export async function readNodeProject(archive: Archive, root: string): Promise<NodeProject> {
  const manifest = await readManifest(archive, root);
  const installRoot = await findInstallRoot(archive, root, manifest);
  const at = (name: string): string => joinPath(installRoot, name);
  const [members, installManifests] = await readMembers(archive, installRoot);
  const texts = await Promise.all(settingsFiles.map((name) => readText(archive, at(name))));
  const settings = texts.filter((text) => text !== null).join("\n");
  const top = installRoot === root ? manifest : await readManifest(archive, installRoot);
  const packages = detectPackages({
    has: (name) => archive.files.has(at(name)) || hasDirectory(archive, at(name)),
    manifest: top,
    members,
    yarnLock: await readText(archive, at("yarn.lock")),
    pnpmLock: await readText(archive, at("pnpm-lock.yaml")),
    settings,
  });
  const app = readProject(await readFacts(archive, root), {
    manager: packages?.manager ?? "npm",
    ...(top !== null && archive.files.has(at("nx.json")) && { inherited: top.dependencies }),
  });
  return {
    installRoot,
    appDirectory: pathWithin(root, installRoot) ?? "",
    app,
    packages,
    installManifests,
    settings,
    tracesApp: tracesApp(app),
  };
}

/** What the project's own directory tells of it. */
async function readFacts(archive: Archive, root: string): Promise<Facts> {
  const files = [...archive.files.keys()].flatMap((path) => pathWithin(path, root) ?? []).filter(isSource);
  const own = files.filter((name) => !name.includes("/"));
  const texts = await Promise.all(
    tellingFiles(own, tellingMax).map(async (name) => {
      const limit = name === "package.json" ? textMaxBytes : tellingBytesMax;
      return [name, await readText(archive, joinPath(root, name), limit)] as const;
    }),
  );
  return {
    files: new Set(files),
    texts: new Map(texts.flatMap(([name, text]) => (text === null ? [] : [[name, text]]))),
  };
}

/**
 * The nearest directory upwards that has a lock file; for a package without one of its own that is the top of
 * the workspace that it belongs to, not of whatever else has been put around it.
 */
async function findInstallRoot(archive: Archive, root: string, manifest: PackageJson | null): Promise<string> {
  const hasLock = (directory: string): boolean =>
    lockFiles.some((name) => archive.files.has(joinPath(directory, name)));
  if (hasLock(root)) return root;
  const workspaces: string[] = [];
  for (const directory of parents(root)) {
    const isWorkspace =
      archive.files.has(joinPath(directory, "pnpm-workspace.yaml")) ||
      (await readManifest(archive, directory))?.hasWorkspaces === true;
    if (hasLock(directory) && (isWorkspace || manifest === null)) return directory;
    if (isWorkspace) workspaces.push(directory);
  }
  return workspaces[0] ?? root;
}

/** Every package of the tree below `installRoot`, and what installing needs of all of them. */
async function readMembers(archive: Archive, installRoot: string): Promise<[PackageJson[], Map<string, string>]> {
  const members: PackageJson[] = [];
  const manifests = new Map<string, string>();
  for (const path of archive.files.keys()) {
    const name = pathWithin(path, installRoot);
    if (name === null || !/(?:^|\/)package\.json$/.test(name) || !isSource(name)) continue;
    const text = (await readText(archive, path)) ?? "";
    const member = parsePackageJson(text);
    const reduced = installManifest(text);
    // What is not even JSON is a file of some test, not a package.
    if (member === null || reduced === null) continue;
    manifests.set(name, reduced);
    if (name !== "package.json") members.push(member);
  }
  return [members, manifests];
}

/** Of the packages that the project in `root` says it depends on, those that are asked for. What is broken says nothing. */
export async function findPackages(archive: Archive, root: string, asked: readonly string[]): Promise<string[]> {
  const text = await readText(archive, joinPath(root, "package.json"));
  const found = parsePackageJson(text ?? "")?.dependencies ?? new Set();
  return asked.filter((name) => found.has(name));
}

async function readManifest(archive: Archive, directory: string): Promise<PackageJson | null> {
  const path = joinPath(directory, "package.json");
  const text = await readText(archive, path);
  if (text === null) return null;
  const manifest = parsePackageJson(text);
  if (manifest === null) throw new TaskFailure("BUILD_FAILED", `${path} is not valid JSON.`);
  return manifest;
}

async function readText(archive: Archive, path: string, maxBytes = textMaxBytes): Promise<string | null> {
  const file = archive.files.get(path);
  if (file === undefined || file.sizeBytes > maxBytes) return null;
  return (await archive.read(file)).toString("utf8");
}

/** Whether an archive has something in a directory, or the directory itself. */
export function hasDirectory(archive: Archive, directory: string): boolean {
  const isBelow = (path: string): boolean => path.startsWith(`${directory}/`);
  return archive.directories.has(directory) || [...archive.files.keys(), ...archive.symlinks.keys()].some(isBelow);
}

const joinPath = (...parts: readonly string[]): string => parts.filter((part) => part !== "").join("/");
