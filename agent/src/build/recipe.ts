import type { BuildSpec } from "@svc/proto/node";
import { TaskFailure } from "../placements/failure.ts";
import type { Archive } from "./archive.ts";
import { pathWithin, plainDirectory } from "./context.ts";
import {
  CA_PATH,
  DOCKERFILE_PATH,
  defaultStartCommand,
  type NodeBuild,
  PLATFORM_DIR,
  renderServerDockerfile,
  renderStaticDockerfile,
} from "./dockerfile.ts";
import { detectPackages, type PackageJson, parsePackageJson } from "./packages.ts";
import { rewriteDockerfile } from "./user-dockerfile.ts";

type ContextParts = {
  /** Directory of the archive that is the root of the context. */
  contextRoot: string;
  /** Path of the Dockerfile in the context. */
  dockerfile: string;
  extra: ReadonlyMap<string, string>;
  keep(path: string): boolean;
};

/** What a build spec means for one archive. */
export type Recipe =
  /** The files are the site already. */
  | { kind: "files"; directory: string }
  /** A command makes the site. */
  | ({ kind: "site"; output: string } & ContextParts)
  | ({ kind: "image" } & ContextParts);

const TEXT_MAX_BYTES = 1024 * 1024;
const LOCK_FILES = ["package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock", "bun.lockb"];

/** Looks at the sources and decides how they are built. Throws TaskFailure when they do not fit the spec. */
export async function prepareRecipe(archive: Archive, spec: BuildSpec): Promise<Recipe> {
  const root = plainDirectory(spec.rootDirectory);
  if (root !== "" && !hasDirectory(archive, root)) {
    throw new TaskFailure(
      "SOURCE_INVALID",
      `The upload has no directory "${root}". Check source.rootDirectory in the manifest.`,
    );
  }
  switch (spec.recipe.case) {
    case "static": {
      const { command, output } = spec.recipe.value;
      const outputDirectory = plainDirectory(output);
      if (command === "") return { kind: "files", directory: joinPath(root, outputDirectory) };
      const { build, parts } = await prepareNode(archive, spec, root, command);
      const dockerfile = renderStaticDockerfile(build, outputDirectory);
      return { kind: "site", output: outputDirectory, ...withFiles(parts, spec, dockerfile) };
    }
    case "image": {
      const { dockerfile, buildCommand, startCommand, port } = spec.recipe.value;
      if (dockerfile !== "") return userRecipe(archive, spec, root, plainDirectory(dockerfile));
      const { build, parts, manifest } = await prepareNode(archive, spec, root, buildCommand);
      const has = (name: string): boolean => archive.files.has(joinPath(root, name));
      const start = startCommand === "" ? defaultStartCommand(manifest, has) : startCommand;
      if (start === null) {
        throw new TaskFailure(
          "BUILD_FAILED",
          "Nothing says how to start the app: set start.command in the manifest, or a start script in package.json.",
        );
      }
      return { kind: "image", ...withFiles(parts, spec, renderServerDockerfile(build, { startCommand: start, port })) };
    }
    default:
      throw new TaskFailure("BUILD_FAILED", "The build has no recipe that this node knows.");
  }
}

async function userRecipe(archive: Archive, spec: BuildSpec, root: string, path: string): Promise<Recipe> {
  const text = await readText(archive, joinPath(root, path));
  if (text === null) throw new TaskFailure("BUILD_FAILED", `The upload has no Dockerfile at "${path}".`);
  const rewritten = rewriteDockerfile(text, spec.cacheNamespace);
  if ("refuse" in rewritten) throw new TaskFailure("BUILD_FAILED", rewritten.refuse);
  return {
    kind: "image",
    contextRoot: root,
    dockerfile: path,
    extra: new Map([[path, rewritten.text]]),
    keep: () => true,
  };
}

async function prepareNode(archive: Archive, spec: BuildSpec, root: string, buildCommand: string) {
  // In a workspace the lock file is at the top, and installing needs the whole tree.
  const hasLock = (directory: string): boolean =>
    LOCK_FILES.some((name) => archive.files.has(joinPath(directory, name)));
  const contextRoot = root !== "" && !hasLock(root) && hasLock("") ? "" : root;
  const ownManifest = await readManifest(archive, root);
  const installManifest = contextRoot === root ? ownManifest : await readManifest(archive, contextRoot);
  const packages = detectPackages(
    (name) => archive.files.has(joinPath(contextRoot, name)),
    installManifest,
    await readText(archive, joinPath(contextRoot, "yarn.lock")),
  );
  const build: NodeBuild = {
    baseImage: spec.baseImage,
    packages,
    installDirectory: "",
    appDirectory: pathWithin(root, contextRoot) === null ? "" : contextRoot === root ? "" : root,
    buildCommand,
    cacheNamespace: spec.cacheNamespace,
    hasCaBundle: spec.caBundle !== "",
  };
  return { build, parts: { contextRoot }, manifest: ownManifest };
}

function withFiles(parts: { contextRoot: string }, spec: BuildSpec, dockerfile: string): ContextParts {
  const extra = new Map([[DOCKERFILE_PATH, dockerfile]]);
  if (spec.caBundle !== "") extra.set(CA_PATH, spec.caBundle);
  return { ...parts, dockerfile: DOCKERFILE_PATH, extra, keep: isSource };
}

/** What was installed or committed elsewhere is not part of the sources. */
function isSource(path: string): boolean {
  const parts = path.split("/");
  return parts[0] !== PLATFORM_DIR && !parts.includes("node_modules") && parts[0] !== ".git";
}

async function readManifest(archive: Archive, directory: string): Promise<PackageJson | null> {
  const path = joinPath(directory, "package.json");
  const text = await readText(archive, path);
  if (text === null) return null;
  const manifest = parsePackageJson(text);
  if (manifest === null) throw new TaskFailure("BUILD_FAILED", `${path} is not valid JSON.`);
  return manifest;
}

async function readText(archive: Archive, path: string): Promise<string | null> {
  const file = archive.files.get(path);
  if (file === undefined || file.sizeBytes > TEXT_MAX_BYTES) return null;
  return (await archive.read(file)).toString("utf8");
}

function hasDirectory(archive: Archive, directory: string): boolean {
  const isBelow = (path: string): boolean => path.startsWith(`${directory}/`);
  return archive.directories.has(directory) || [...archive.files.keys(), ...archive.symlinks.keys()].some(isBelow);
}

const joinPath = (...parts: readonly string[]): string => parts.filter((part) => part !== "").join("/");
