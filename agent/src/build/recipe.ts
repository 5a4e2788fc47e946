import { defaultOutput, isSource, serverBuild, serverStart, siteBuild } from "@svc/proto/frameworks";
import type { BuildSpec } from "@svc/proto/node";
import { TaskFailure } from "../placements/failure.ts";
import type { Archive } from "./archive.ts";
import { type BuildSecrets, generatedSecrets, type StepSecrets } from "./build-env.ts";
import { plainDirectory } from "./context.ts";
import {
  caPath,
  dockerfilePath,
  isPlatformStep,
  isServerBuilt,
  manifestsDir,
  type NodeBuild,
  renderServerDockerfile,
  renderStaticDockerfile,
  siteLabel,
  sourceDir,
} from "./dockerfile.ts";
import { hasDirectory, type NodeProject, readNodeProject } from "./node-project.ts";
import type { Recipe } from "./recipe-result.ts";
import { type BuilderFacts, prepareUserRecipe } from "./user-recipe.ts";

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
      const { command, output, outputSaid } = spec.recipe.value;
      const outputDirectory = plainDirectory(output);
      const files: Recipe = { kind: "files", directory: joinPath(root, outputDirectory) };
      const isPlain = command === "" && !archive.files.has(joinPath(root, "package.json"));
      if (isPlain) return files;
      const project = await readNodeProject(archive, root);
      // Beside a command what is usual is sent also when nobody said it.
      const isOpen = command !== "" && !outputSaid && outputDirectory === defaultOutput;
      const site = siteBuild({ command, output: isOpen ? null : outputDirectory }, project.app);
      if (site === null) return files;
      const { steps, secrets } = secretsOf(project, spec, facts);
      const build = nodeBuild(project, await withBuilder(spec, facts), site.command, steps, facts);
      const dockerfile = renderStaticDockerfile(build, site.outputs);
      return {
        kind: "site",
        output: siteLabel(site.outputs),
        ...generated(project, spec, build, { dockerfile, secrets }),
      };
    }
    case "image": {
      const { dockerfile, buildCommand, startCommand, port } = spec.recipe.value;
      if (dockerfile !== "") return prepareUserRecipe(archive, spec, root, plainDirectory(dockerfile), facts);
      const project = await readNodeProject(archive, root);
      const saysNothing = buildCommand === "" && startCommand === "" && project.app.manifest === null;
      if (saysNothing && project.app.has("Dockerfile")) {
        return prepareUserRecipe(archive, spec, root, "Dockerfile", facts);
      }
      const server = serverStart({ build: buildCommand, start: startCommand }, project.app);
      if ("problem" in server) throw new TaskFailure("BUILD_FAILED", server.problem);
      const { steps, secrets } = secretsOf(project, spec, facts);
      const command = serverBuild(buildCommand, project.app);
      const isBuilt = isServerBuilt({ packages: project.packages, buildCommand: command });
      const build = nodeBuild(project, isBuilt ? await withBuilder(spec, facts) : spec, command, steps, facts);
      const baseImage = await facts.provideBaseImage(spec.baseImage);
      const dockerfileText = renderServerDockerfile(build, { ...server, port, baseImage });
      const kept = `Packages for development stay in the image: it is started with ${server.keeps.join(", ")}.`;
      const notes = [...(server.note === null ? [] : [server.note]), ...(server.keeps.length === 0 ? [] : [kept])];
      return { kind: "image", notes, ...generated(project, spec, build, { dockerfile: dockerfileText, secrets }) };
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

/** The same spec with the builder image by the name that the engine has it under. */
const withBuilder = async (spec: BuildSpec, { provideBaseImage }: BuilderFacts): Promise<BuildSpec> => ({
  ...spec,
  // A control of before there was one builds in the base image.
  builderImage: await provideBaseImage(spec.builderImage || spec.baseImage),
});

const nodeBuild = (
  project: NodeProject,
  spec: BuildSpec,
  buildCommand: string,
  secrets: StepSecrets,
  { leavesStubs }: BuilderFacts,
): NodeBuild => ({
  builderImage: spec.builderImage,
  packages: project.packages,
  framework: project.app.framework,
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
  build: NodeBuild,
  { dockerfile, secrets }: { dockerfile: string; secrets: BuildSecrets },
) {
  const extra = new Map([[dockerfilePath, dockerfile]]);
  if (spec.caBundle !== "") extra.set(caPath, spec.caBundle);
  if (packages?.separable === true) {
    for (const [path, text] of installManifests) extra.set(joinPath(manifestsDir, path), text);
  }
  const isOurs = (title: string) => isPlatformStep(title, build);
  return { root: installRoot, into: sourceDir, dockerfile: dockerfilePath, extra, secrets, keep: isSource, isOurs };
}

const joinPath = (...parts: readonly string[]): string => parts.filter((part) => part !== "").join("/");
