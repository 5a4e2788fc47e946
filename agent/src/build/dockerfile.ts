import { type Framework, hasProgramFolder, type ServerStart, scriptCommand } from "@svc/proto/frameworks";
import { envPath, type StepSecrets, withEnv } from "./build-env.ts";
import { type MountTarget, standIns, stubStage } from "./mount-stubs.ts";
import { managerOf } from "./package-manager.ts";
import type { Packages } from "./packages.ts";

/** Where a generated build finds the user's files in its context: beside those of the platform, never among them. */
export const sourceDir = "source";
/** Where it finds what an installation needs of every `package.json`. */
export const manifestsDir = "manifests";
export const dockerfilePath = "Dockerfile";
export const caPath = "ca.pem";
/** Where the last stage of a static build keeps the site. */
export const siteDir = "/site";
/** Keeps layers and cache mounts of one namespace from those of every other. */
export const namespaceArg = "SVC_CACHE_NAMESPACE";

const caInStage = "/run/svc-build/ca.pem";
const homeDirectory = "/app";
/** A package manager that the base image does not have. */
const toolsDir = "/opt/svc";
const foundDir = "/svc-site";
/** The app without its packages. */
const bareDir = "/svc-app";
const standaloneDir = ".next/standalone";
/** Numbers: the base may not have a user of that name. */
const user = "1000:1000";

export interface NodeBuild {
  /** What packages are installed and the app is built in. */
  builderImage: string;
  /** Null when there is nothing to install. */
  packages: Packages | null;
  framework: Framework | null;
  /** Directory of the app relative to the sources; empty for their root, where packages are installed. */
  appDirectory: string;
  /** Empty when nothing is built. */
  buildCommand: string;
  /** Whether Next is told to leave a traced copy of the app. */
  tracesApp: boolean;
  cacheNamespace: string;
  hasCaBundle: boolean;
  /** Ids of the secrets with the variables that steps get. */
  secrets: StepSecrets;
  /** Whether the engine removes what it made as the target of a mount by a path that the step may have bent. */
  leavesStubs: boolean;
}

/**
 * A Dockerfile for a site that a command makes: its last stage holds nothing but the result.
 *
 * @param outputs directories to look in for the site; the first that is there is taken
 */
export function renderStaticDockerfile(build: NodeBuild, outputs: readonly string[]): string {
  const label = siteLabel(outputs);
  const isKnown = outputs.length === 1;
  const result = isKnown ? joinPath(appHome(build), label === "." ? "" : label) : `${foundDir}/${label}`;
  return lines([
    ...buildStage(build),
    ...(isKnown ? [] : [run(build, `for each in ${outputs.join(" ")}; do ${keepSite(label)}; done`)]),
    "",
    "FROM scratch",
    `COPY --from=build ${quote([`${result}/`, `${siteDir}/`])}`,
  ]);
}

/** What the output of a static build is called towards its owner, of all the directories where it may be. */
export const siteLabel = (outputs: readonly string[]): string => outputs.find((each) => !each.includes("*")) ?? "dist";

const keepSite = (label: string): string => {
  const target = `"${foundDir}/${label}"`;
  return `if [ -d "$each" ] && [ ! -e ${target} ]; then mkdir -p ${target} && cp -a "$each/." ${target}/ && echo "The site is in $each"; fi`;
};

/** A Dockerfile for a Node server. Its last stage starts from the bare base, so build-time files stay behind. */
export function renderServerDockerfile(
  build: NodeBuild,
  server: Pick<ServerStart, "command" | "standalone" | "keeps"> & { port: number; baseImage: string },
): string {
  const { packages } = build;
  const isBuilt = isServerBuilt(build);
  const complete = build.tracesApp ? [run(build, completeStandalone(build.appDirectory, server.standalone))] : [];
  const lastSteps = server.standalone
    ? complete
    : [...complete, ...(server.keeps.length === 0 ? pruneSteps(build) : []), ...splitStep(build)];
  return lines([
    ...(isBuilt ? [...buildStage(build), ...lastSteps, ""] : []),
    `FROM ${server.baseImage}`,
    `ENV NODE_ENV=production PORT=${server.port} HOME=${homeDirectory} HOST=0.0.0.0${pairs({ ...build.framework?.env, ...managerEnv(packages) })}`,
    ...(isBuilt ? [pathLine(build)] : []),
    ...copySteps(build, isBuilt, server.standalone),
    `WORKDIR ${quoteWord(appHome(build))}`,
    `USER ${user}`,
    `EXPOSE ${server.port}`,
    `CMD ${quote(["/bin/sh", "-c", execCommand(server.command)])}`,
  ]);
}

/** Whether something happens to the sources of a server before they are its image. */
export const isServerBuilt = ({ packages, buildCommand }: Pick<NodeBuild, "packages" | "buildCommand">): boolean =>
  packages !== null || buildCommand !== "";

/**
 * What the last stage takes over. Packages are a layer of their own: as long as these stay equal it is neither
 * stored nor fetched again.
 */
function copySteps(build: NodeBuild, isBuilt: boolean, standalone: boolean): string[] {
  const copy = (...paths: [string, string]): string => `COPY --from=build --chown=${user} ${quote(paths)}`;
  if (!isBuilt) return [`COPY --chown=${user} ${quote([`${sourceDir}/`, `${homeDirectory}/`])}`];
  if (standalone) return [copy(joinPath(appHome(build), standaloneDir), homeDirectory)];
  const manager = hasOwnManager(build.packages) ? [`COPY --from=build ${toolsDir} ${toolsDir}`] : [];
  if (splitStep(build).length === 0) return [...manager, copy(homeDirectory, homeDirectory)];
  return [
    ...manager,
    copy(`${homeDirectory}/node_modules`, `${homeDirectory}/node_modules`),
    copy(bareDir, homeDirectory),
  ];
}

/** What tools keep beside packages for the next time, some with the time of day in it. */
const leftoverPaths = [
  ".cache",
  ".vite",
  ".vite-temp",
  ".modules.yaml",
  ".pnpm-workspace-state.json",
  ".pnpm-workspace-state-v1.json",
];

/** Sets the app apart from its packages, where these are in a folder of their own. */
function splitStep(build: NodeBuild): string[] {
  const { packages } = build;
  if (packages === null || !hasProgramFolder(packages.manager)) return [];
  const others = `find ${homeDirectory} -mindepth 1 -maxdepth 1 ! -name node_modules -exec cp -a {} ${bareDir}/ ';'`;
  const leftovers = leftoverPaths.map((name) => `${homeDirectory}/node_modules/${name}`).join(" ");
  return [run(build, `rm -rf ${leftovers} && mkdir -p ${bareDir} ${homeDirectory}/node_modules && ${others}`)];
}

/**
 * A simple command takes the shell's place, so that it gets the signals itself. Anything with shell syntax
 * is left as it is.
 */
export function execCommand(command: string): string {
  const isSimple = /^[\w@%+:,./-]+(?: +[\w@%+:,./=-]+)*$/.test(command.trim());
  return isSimple ? `exec ${command.trim()}` : command;
}

function buildStage(build: NodeBuild): string[] {
  const { packages, buildCommand } = build;
  const provide = packages === null ? null : managerOf(packages).provide(packages.version);
  return [
    ...(build.leavesStubs ? stubStage : []),
    `FROM ${build.builderImage} AS build`,
    `ARG ${namespaceArg}`,
    ...(build.hasCaBundle
      ? [
          `COPY ${caPath} ${caInStage}`,
          `ENV NODE_EXTRA_CA_CERTS=${caInStage} npm_config_cafile=${caInStage} SSL_CERT_FILE=${caInStage}`,
        ]
      : []),
    `ENV CI=true${pairs(managerEnv(packages))}`,
    pathLine(build),
    `WORKDIR ${homeDirectory}`,
    ...(provide === null ? [] : [run(build, `${provide} --prefix ${toolsDir} --cache /tmp/npm && rm -rf /tmp/npm`)]),
    ...installSteps(build),
    ...inAppHome(build),
    ...(buildCommand === "" ? [] : [runCached(build, buildCommand, buildCaches(build), build.secrets.build)]),
  ];
}

/** Whether a step, by its title, is the platform's: none of the commands that the project itself has or needs. */
export function isPlatformStep(title: string, { packages }: Pick<NodeBuild, "packages">): boolean {
  if (!title.startsWith("RUN ")) return true;
  const command = title.slice("RUN ".length);
  if ([toolsDir, bareDir, foundDir].some((directory) => command.includes(directory))) return true;
  if (command.startsWith("if [ -f ") && command.includes(`${standaloneDir}/`)) return true;
  return packages !== null && command === managerOf(packages).prune(packages);
}

/** Installing comes before the sources where it can, so that a change of these does not repeat it. */
function installSteps({ packages, ...build }: NodeBuild): string[] {
  const copySources = `COPY ${quote([`${sourceDir}/`, `${homeDirectory}/`])}`;
  if (packages === null) return [copySources];
  const manager = managerOf(packages);
  const caches = { [packages.manager]: manager.cache };
  const install = runCached(build, manager.install(packages.locked), caches, build.secrets.install);
  if (!packages.separable) return [copySources, install];
  const files = packages.files.map((name) => `${sourceDir}/${name}`);
  return [
    `COPY ${quote([`${manifestsDir}/`, `${homeDirectory}/`])}`,
    ...(files.length === 0 ? [] : [`COPY ${quote([...files, `${homeDirectory}/`])}`]),
    ...packages.directories.map((name) => `COPY ${quote([`${sourceDir}/${name}/`, `${homeDirectory}/${name}/`])}`),
    install,
    copySources,
    ...packages.deferred.map((script) =>
      runCached(build, scriptCommand(packages.manager, script), {}, build.secrets.build),
    ),
  ];
}

/** Takes out what only the build needed. */
function pruneSteps(build: NodeBuild): string[] {
  const { packages, appDirectory } = build;
  const command = packages === null ? null : managerOf(packages).prune(packages);
  if (packages === null || command === null) return [];
  const { cache, prunesFromApp } = managerOf(packages);
  return [
    ...(appDirectory === "" || prunesFromApp ? [] : [`WORKDIR ${homeDirectory}`]),
    runCached(build, command, { [packages.manager]: cache }, build.secrets.install),
  ];
}

/** Adds what Next leaves out of its traced copy, because a delivery network might serve it. */
function completeStandalone(appDirectory: string, isNeeded: boolean): string {
  const target = joinPath(standaloneDir, appDirectory);
  const otherwise = isNeeded
    ? `else echo "The build left no ${target}/server.js. Set start.command in the manifest." >&2; exit 1; `
    : "";
  const copies = [
    `mkdir -p "${target}/.next"`,
    `cp -R .next/static "${target}/.next/"`,
    `if [ -d public ]; then cp -R public "${target}/"; fi`,
  ].join(" && ");
  return `if [ -f "${target}/server.js" ]; then ${copies}; ${otherwise}fi`;
}

/** Directories of the build that outlive it, by a name for each. */
function buildCaches(build: NodeBuild): Record<string, string> {
  const { packages, framework } = build;
  const usual = packages === null || packages.manager === "yarn-berry" ? [] : ["node_modules/.cache"];
  const all = [...usual, ...(framework?.caches ?? [])];
  return Object.fromEntries(all.map((path) => [path.replaceAll(/[^a-z]+/g, "-"), joinPath(appHome(build), path)]));
}

/**
 * @param caches directory by the name that it has within the namespace
 * @param secretId of the variables that the command gets; null: none
 */
function runCached(
  build: Pick<NodeBuild, "cacheNamespace" | "leavesStubs">,
  command: string,
  caches: Record<string, string>,
  secretId: string | null,
): string {
  const all = Object.entries(caches);
  const mounts = all.map(([name, target]) => `--mount=type=cache,id=${build.cacheNamespace}-${name},target=${target} `);
  const targets = all.map(([, path]): MountTarget => ({ kind: "directory", path }));
  if (secretId === null) return step(build, targets, `${mounts.join("")}${shell(command)}`);
  const mount = `--mount=type=secret,id=${secretId},target=${envPath},mode=0444,required=true `;
  const both = [...targets, { kind: "file", path: envPath } as const];
  return step(build, both, `${mounts.join("")}${mount}${quote(["/bin/sh", "-c", withEnv, command])}`);
}

/** A step that runs what a project brings along, and what it will find something mounted upon. */
const step = ({ leavesStubs }: Pick<NodeBuild, "leavesStubs">, targets: readonly MountTarget[], text: string): string =>
  [...(leavesStubs ? standIns(targets) : []), `RUN ${text}`].join("\n");

/** Programs that are installed in the project are found by their names, as in a package script. */
function pathLine(build: NodeBuild): string {
  const folders = [...new Set([appHome(build), homeDirectory])].map((directory) => `${directory}/node_modules/.bin`);
  const all = [...(hasOwnManager(build.packages) ? [`${toolsDir}/bin`] : []), ...folders];
  return `ENV PATH="${escapeWord(all.join(":"))}:$PATH"`;
}

const hasOwnManager = (packages: Packages | null): boolean =>
  packages !== null && managerOf(packages).provide(packages.version) !== null;

const managerEnv = (packages: Packages | null): Readonly<Record<string, string>> =>
  packages === null ? {} : managerOf(packages).env;

const pairs = (env: Readonly<Record<string, string>>): string =>
  Object.entries(env)
    .map(([name, value]) => ` ${name}=${value}`)
    .join("");

const inAppHome = (build: NodeBuild): string[] =>
  build.appDirectory === "" ? [] : [`WORKDIR ${quoteWord(appHome(build))}`];

const appHome = (build: NodeBuild): string => joinPath(homeDirectory, build.appDirectory);

const joinPath = (...parts: readonly string[]): string => parts.filter((part) => part !== "").join("/");

const run = (build: NodeBuild, command: string): string => step(build, [], shell(command));

/** A command in the exec form, so that no line break or `<<` of it means anything to the parser. */
const shell = (command: string): string => quote(["/bin/sh", "-c", command]);

const quote = (parts: readonly string[]): string => JSON.stringify(parts);

/** Paths come from a manifest that holds them to plain characters; what is special to the parser is escaped all the same. */
const quoteWord = (word: string): string => `"${escapeWord(word)}"`;

const escapeWord = (word: string): string => word.replaceAll(/["\\$]/g, "\\$&");

const lines = (all: readonly string[]): string => `${all.join("\n")}\n`;
