import type { BuildSpec } from "@svc/proto/node";
import { TaskFailure } from "../placements/failure.ts";
import type { Archive } from "./archive.ts";
import { plainDirectory } from "./context.ts";
import {
  CA_PATH,
  DOCKERFILE_PATH,
  defaultStartCommand,
  type NodeBuild,
  renderServerDockerfile,
  renderStaticDockerfile,
  SOURCE_DIR,
} from "./dockerfile.ts";
import { detectPackages, type PackageJson, parsePackageJson } from "./packages.ts";
import { rewriteDockerfile } from "./user-dockerfile.ts";

type ContextParts = {
  /** Directory of the archive that is built, and where it goes in the context. */
  root: string;
  into: string;
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
      const node = await prepareNode(archive, spec, root, command);
      const dockerfile = renderStaticDockerfile(node.build, outputDirectory);
      return { kind: "site", output: outputDirectory, ...generated(node.root, spec, dockerfile) };
    }
    case "image": {
      const { dockerfile, buildCommand, startCommand, port } = spec.recipe.value;
      if (dockerfile !== "") return userRecipe(archive, spec, root, plainDirectory(dockerfile));
      const node = await prepareNode(archive, spec, root, buildCommand);
      const has = (name: string): boolean => archive.files.has(joinPath(root, name));
      const start = startCommand === "" ? defaultStartCommand(node.manifest, has) : startCommand;
      if (start === null) {
        throw new TaskFailure(
          "BUILD_FAILED",
          "Nothing says how to start the app: set start.command in the manifest, or a start script in package.json.",
        );
      }
      return {
        kind: "image",
        ...generated(node.root, spec, renderServerDockerfile(node.build, { startCommand: start, port })),
      };
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
    root,
    into: "",
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
    appDirectory: contextRoot === root ? "" : root,
    buildCommand,
    cacheNamespace: spec.cacheNamespace,
    hasCaBundle: spec.caBundle !== "",
  };
  return { build, root: contextRoot, manifest: ownManifest };
}

function generated(root: string, spec: BuildSpec, dockerfile: string): ContextParts {
  const extra = new Map([[DOCKERFILE_PATH, dockerfile]]);
  if (spec.caBundle !== "") extra.set(CA_PATH, spec.caBundle);
  return { root, into: SOURCE_DIR, dockerfile: DOCKERFILE_PATH, extra, keep: isSource };
}

/** What was installed elsewhere, and the history of the sources, are not part of them. */
const isSource = (path: string): boolean => !path.split("/").some((part) => part === "node_modules" || part === ".git");

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
