import type { BuildSpec } from "@svc/proto/node";
import { TaskFailure } from "../placements/failure.ts";
import type { Archive } from "./archive.ts";
import { type BuildSecrets, generatedSecrets, type StepSecrets } from "./build-env.ts";
import { plainDirectory } from "./context.ts";
import {
  CA_PATH,
  DOCKERFILE_PATH,
  MANIFESTS_DIR,
  type NodeBuild,
  renderServerDockerfile,
  renderStaticDockerfile,
  SOURCE_DIR,
  siteLabel,
} from "./dockerfile.ts";
import { detectFramework, serverStart, siteBuild } from "./frameworks.ts";
import { EMPTY_FILE } from "./mount-stubs.ts";
import { hasDirectory, isSource, type NodeProject, readNodeProject } from "./node-project.ts";
import { hasProgramFolder, scriptRunner } from "./package-manager.ts";
import { type BuilderFacts, prepareUserRecipe } from "./user-recipe.ts";

type ContextParts = {
  /** Directory of the archive that is built, and where it goes in the context. */
  root: string;
  into: string;
  /** Path of the Dockerfile in the context. */
  dockerfile: string;
  extra: ReadonlyMap<string, string>;
  /** What steps of the Dockerfile may mount. */
  secrets: BuildSecrets;
  keep(path: string): boolean;
};

/** What a build spec means for one archive. */
export type Recipe =
  /** The files are the site already. */
  | { kind: "files"; directory: string }
  /** A command makes the site. */
  | ({ kind: "site"; output: string } & ContextParts)
  | ({
      kind: "image";
      /** Of the project's own Dockerfile: the user's line for each line of it. */
      own?: { lines: readonly number[] };
    } & ContextParts);

/** Looks at the sources and decides how they are built. Throws TaskFailure when they do not fit the spec. */
export async function prepareRecipe(archive: Archive, spec: BuildSpec, facts: BuilderFacts): Promise<Recipe> {
  const root = plainDirectory(spec.rootDirectory);
  if (root !== "" && !hasDirectory(archive, root)) {
    throw new TaskFailure(
      "SOURCE_INVALID",
      `The upload has no directory "${root}". Check source.rootDirectory in the manifest.`,
    );
  }
  switch (spec.recipe.case) {
    case "static": {
      const outputDirectory = plainDirectory(spec.recipe.value.output);
      const files: Recipe = { kind: "files", directory: joinPath(root, outputDirectory) };
      const isPlain = spec.recipe.value.command === "" && !archive.files.has(joinPath(root, "package.json"));
      if (isPlain) return files;
      const project = await readNodeProject(archive, root);
      const said = { command: spec.recipe.value.command, output: outputDirectory };
      const site = siteBuild(said, project.manifest, scriptRunner(project.packages));
      if (site === null) return files;
      const { steps, secrets } = secretsOf(project, spec, facts);
      const build = nodeBuild(project, await withBase(spec, facts), site.command, steps, facts);
      const dockerfile = renderStaticDockerfile(build, site.outputs);
      return { kind: "site", output: siteLabel(site.outputs), ...generated(project, spec, dockerfile, secrets) };
    }
    case "image": {
      const { dockerfile, buildCommand, startCommand, port } = spec.recipe.value;
      if (dockerfile !== "") return prepareUserRecipe(archive, spec, root, plainDirectory(dockerfile), facts);
      const project = await readNodeProject(archive, root);
      const saysNothing = buildCommand === "" && startCommand === "" && project.manifest === null;
      if (saysNothing && project.has("Dockerfile")) {
        return prepareUserRecipe(archive, spec, root, "Dockerfile", facts);
      }
      const runScript = scriptRunner(project.packages);
      const hasBuild = project.manifest?.scripts.has("build") === true;
      const { steps, secrets } = secretsOf(project, spec, facts);
      const command = buildCommand === "" && hasBuild ? runScript("build") : buildCommand;
      const build = nodeBuild(project, await withBase(spec, facts), command, steps, facts);
      const server = serverStart(startCommand, project.manifest, {
        has: project.has,
        runScript,
        standalone: build.tracesApp,
        runsFromFolder: hasProgramFolder(project.packages),
      });
      if (server === null) {
        throw new TaskFailure(
          "BUILD_FAILED",
          "Nothing says how to start the app: set start.command in the manifest, or a start script in package.json.",
        );
      }
      const dockerfileText = renderServerDockerfile(build, { ...server, port });
      return { kind: "image", ...generated(project, spec, dockerfileText, secrets) };
    }
    default:
      throw new TaskFailure("BUILD_FAILED", "The build has no recipe that this node knows.");
  }
}

/** The variables of a generated Dockerfile's steps. Where scripts of packages run on installing, they may read any. */
const secretsOf = ({ packages, settings }: NodeProject, spec: BuildSpec, { envKey }: BuilderFacts) =>
  generatedSecrets(spec.env, packages?.separable === false ? null : settings, {
    key: envKey,
    namespace: spec.cacheNamespace,
  });

/** The same spec with the base image by the name that the engine has it under. */
const withBase = async (spec: BuildSpec, { provideBaseImage }: BuilderFacts): Promise<BuildSpec> => ({
  ...spec,
  baseImage: await provideBaseImage(spec.baseImage),
});

const nodeBuild = (
  project: NodeProject,
  spec: BuildSpec,
  buildCommand: string,
  secrets: StepSecrets,
  { leavesStubs }: BuilderFacts,
): NodeBuild => ({
  baseImage: spec.baseImage,
  packages: project.packages,
  framework: detectFramework(project.manifest),
  appDirectory: project.appDirectory,
  buildCommand,
  tracesApp: project.tracesApp && buildCommand !== "",
  cacheNamespace: spec.cacheNamespace,
  hasCaBundle: spec.caBundle !== "",
  secrets,
  leavesStubs,
});

function generated(
  { installRoot, packages, installManifests }: NodeProject,
  spec: BuildSpec,
  dockerfile: string,
  secrets: BuildSecrets,
) {
  const extra = new Map([
    [DOCKERFILE_PATH, dockerfile],
    [EMPTY_FILE, ""],
  ]);
  if (spec.caBundle !== "") extra.set(CA_PATH, spec.caBundle);
  if (packages?.separable === true) {
    for (const [path, text] of installManifests) extra.set(joinPath(MANIFESTS_DIR, path), text);
  }
  return { root: installRoot, into: SOURCE_DIR, dockerfile: DOCKERFILE_PATH, extra, secrets, keep: isSource };
}

const joinPath = (...parts: readonly string[]): string => parts.filter((part) => part !== "").join("/");
