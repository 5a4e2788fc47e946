import type { PackageJson, Packages } from "./packages.ts";

/** Where a generated build finds the user's files in its context: beside those of the platform, never among them. */
export const SOURCE_DIR = "source";
export const DOCKERFILE_PATH = "Dockerfile";
export const CA_PATH = "ca.pem";
/** Where the last stage of a static build keeps the site. */
export const SITE_DIR = "/site";
/** Keeps layers and cache mounts of one namespace from those of every other. */
export const NAMESPACE_ARG = "SVC_CACHE_NAMESPACE";

const CA_IN_STAGE = "/run/svc-build/ca.pem";
const HOME = "/app";
/** Numbers: the base may not have a user of that name. */
const USER = "1000:1000";

export type NodeBuild = {
  baseImage: string;
  /** Null when there is nothing to install. */
  packages: Packages | null;
  /** Directory of the app relative to the sources; empty for their root, where packages are installed. */
  appDirectory: string;
  buildCommand: string;
  cacheNamespace: string;
  hasCaBundle: boolean;
};

/** A Dockerfile for a site that a command makes: its last stage holds nothing but the result. */
export function renderStaticDockerfile(build: NodeBuild, output: string): string {
  const result = joinPath(appHome(build), output === "." ? "" : output);
  return lines([
    ...buildStage(build),
    "",
    "FROM scratch",
    `COPY --from=build ${quote([`${result}/`, `${SITE_DIR}/`])}`,
  ]);
}

/** A Dockerfile for a Node server. Its last stage starts from the bare base, so build-time files stay behind. */
export function renderServerDockerfile(build: NodeBuild, server: { startCommand: string; port: number }): string {
  const isBuilt = build.packages !== null || build.buildCommand !== "";
  const stage = isBuilt ? [...buildStage(build), ...pruneCommands(build.packages).map(run), ""] : [];
  return lines([
    ...stage,
    `FROM ${build.baseImage}`,
    `ENV NODE_ENV=production PORT=${server.port} HOME=${HOME}`,
    isBuilt
      ? `COPY --from=build --chown=${USER} ${HOME} ${HOME}`
      : `COPY --chown=${USER} ${quote([`${SOURCE_DIR}/`, `${HOME}/`])}`,
    `WORKDIR ${quoteWord(appHome(build))}`,
    `USER ${USER}`,
    `EXPOSE ${server.port}`,
    `CMD ${quote(["/bin/sh", "-c", execCommand(server.startCommand)])}`,
  ]);
}

/** How to start a server that no command was given for; null when nothing tells. */
export function defaultStartCommand(manifest: PackageJson | null, has: (name: string) => boolean): string | null {
  if (manifest?.scripts.has("start")) return "npm start";
  const main = manifest?.main ?? ["server.js", "index.js", "app.js", "server.mjs", "index.mjs"].find(has);
  return main === undefined || main === null || !/^[\w@./-]+$/.test(main) ? null : `node ${main}`;
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
  const install =
    packages === null ? [] : installCommands(packages).map((command) => runCached(build, packages, command));
  const manifests = (packages?.manifests ?? []).map((name) => `${SOURCE_DIR}/${name}`);
  const copySources = `COPY ${quote([`${SOURCE_DIR}/`, `${HOME}/`])}`;
  return [
    `FROM ${build.baseImage} AS build`,
    `ARG ${NAMESPACE_ARG}`,
    ...(build.hasCaBundle
      ? [
          `COPY ${CA_PATH} ${CA_IN_STAGE}`,
          `ENV NODE_EXTRA_CA_CERTS=${CA_IN_STAGE} npm_config_cafile=${CA_IN_STAGE} SSL_CERT_FILE=${CA_IN_STAGE}`,
        ]
      : []),
    "ENV CI=true npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false",
    `WORKDIR ${HOME}`,
    ...(packages?.separable === true
      ? [`COPY ${quote([...manifests, `${HOME}/`])}`, ...install, copySources]
      : [copySources, ...install]),
    ...(build.appDirectory === "" ? [] : [`WORKDIR ${quoteWord(appHome(build))}`]),
    ...(buildCommand === "" ? [] : [run(buildCommand)]),
  ];
}

function runCached(build: NodeBuild, packages: Packages, command: string): string {
  const target = { npm: "/root/.npm", pnpm: "/root/.local/share/pnpm/store", yarn: "/usr/local/share/.cache/yarn" };
  const directory = packages.manager in target ? target[packages.manager as keyof typeof target] : "/root/.cache";
  return `RUN --mount=type=cache,id=${build.cacheNamespace}-${packages.manager},target=${directory} ${shell(command)}`;
}

function installCommands({ manager, version, locked }: Packages): string[] {
  const at = version === "" ? "" : `@${version}`;
  switch (manager) {
    case "npm":
      return [...(at === "" ? [] : [`npm install --global npm${at}`]), locked ? "npm ci" : "npm install"];
    case "pnpm":
      return [`npm install --global pnpm${at || "@10"}`, locked ? "pnpm install --frozen-lockfile" : "pnpm install"];
    case "yarn":
      return [
        `npm install --global yarn${at || "@1"} --force`,
        locked ? "yarn install --frozen-lockfile" : "yarn install",
      ];
    case "yarn-berry":
      return [
        `npm install --global @yarnpkg/cli-dist${at || "@4"} --force`,
        locked ? "yarn install --immutable" : "yarn install",
      ];
    case "bun":
      return [`npm install --global bun${at || "@1"}`, locked ? "bun install --frozen-lockfile" : "bun install"];
  }
}

/** Takes out what only the build needed, where the manager can do that in place. */
function pruneCommands(packages: Packages | null): string[] {
  if (packages?.manager === "npm") return ["npm prune --omit=dev"];
  if (packages?.manager === "pnpm") return ["CI=true pnpm prune --prod --ignore-scripts"];
  return [];
}

const appHome = (build: NodeBuild): string => joinPath(HOME, build.appDirectory);

const joinPath = (...parts: readonly string[]): string => parts.filter((part) => part !== "").join("/");

const run = (command: string): string => `RUN ${shell(command)}`;

/** A command in the exec form, so that no line break or `<<` of it means anything to the parser. */
const shell = (command: string): string => quote(["/bin/sh", "-c", command]);

const quote = (parts: readonly string[]): string => JSON.stringify(parts);

/** Paths come from a manifest that holds them to plain characters; what is special to the parser is escaped all the same. */
const quoteWord = (word: string): string => `"${word.replaceAll(/["\\$]/g, "\\$&")}"`;

const lines = (all: readonly string[]): string => `${all.join("\n")}\n`;
