import type { PackageJson, Packages } from "./packages.ts";

/** Names of the files that the platform adds to a build context. Nothing of a user's may carry them. */
export const PLATFORM_DIR = ".svc-build";
export const DOCKERFILE_PATH = `${PLATFORM_DIR}/Dockerfile`;
export const CA_PATH = `${PLATFORM_DIR}/ca.pem`;
/** Where the last stage of a static build keeps the site. */
export const SITE_DIR = "/site";
/** Keeps layers and cache mounts of one namespace from those of every other. */
export const NAMESPACE_ARG = "SVC_CACHE_NAMESPACE";

const CA_IN_STAGE = "/run/svc-build/ca.pem";

export type NodeBuild = {
  baseImage: string;
  /** Null when there is nothing to install. */
  packages: Packages | null;
  /** Directory of the lock file relative to the context; empty for its root. */
  installDirectory: string;
  /** Directory of the app relative to the context; empty for its root. */
  appDirectory: string;
  buildCommand: string;
  cacheNamespace: string;
  hasCaBundle: boolean;
};

/** A Dockerfile for a site that a command makes: its last stage holds nothing but the result. */
export function renderStaticDockerfile(build: NodeBuild, output: string): string {
  const from = ["/app", build.appDirectory, output].filter((part) => part !== "" && part !== ".").join("/");
  return lines([
    ...buildStage(build),
    "",
    "FROM scratch",
    `COPY --from=build ${quoteCopy([`${from}/`, `${SITE_DIR}/`])}`,
  ]);
}

/** A Dockerfile for a Node server. Its last stage starts from the bare base, so build-time files stay behind. */
export function renderServerDockerfile(build: NodeBuild, server: { startCommand: string; port: number }): string {
  const workdir = ["/app", build.appDirectory].filter((part) => part !== "").join("/");
  return lines([
    ...buildStage(build),
    ...pruneCommand(build.packages).map((command) => `RUN ${quoteRun(command)}`),
    "",
    `FROM ${build.baseImage}`,
    `ENV NODE_ENV=production PORT=${server.port} HOME=/app`,
    // Numbers: the base may not have a user of that name.
    `COPY --from=build --chown=1000:1000 /app /app`,
    `WORKDIR ${quoteWord(workdir)}`,
    "USER 1000:1000",
    `EXPOSE ${server.port}`,
    `CMD ${JSON.stringify(["/bin/sh", "-c", execCommand(server.startCommand)])}`,
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
  const { packages, installDirectory } = build;
  const installIn = ["/app", installDirectory].filter((part) => part !== "").join("/");
  const appIn = ["/app", build.appDirectory].filter((part) => part !== "").join("/");
  const install =
    packages === null ? [] : installCommands(packages).map((command) => runCached(build, packages, command));
  const prefix = installDirectory === "" ? "" : `${installDirectory}/`;
  const first =
    packages?.separable === true
      ? [`COPY ${quoteCopy([...packages.manifests.map((name) => `${prefix}${name}`), `${installIn}/`])}`, ...install]
      : [];
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
    `WORKDIR ${quoteWord(installIn)}`,
    ...first,
    "COPY . /app/",
    // The copy brought the platform's own files along.
    `RUN rm -rf /app/${PLATFORM_DIR}`,
    ...(first.length === 0 ? install : []),
    `WORKDIR ${quoteWord(appIn)}`,
    ...(build.buildCommand === "" ? [] : [`RUN ${quoteRun(build.buildCommand)}`]),
  ];
}

function runCached(build: NodeBuild, packages: Packages, command: string): string {
  const target = { npm: "/root/.npm", pnpm: "/root/.local/share/pnpm/store", yarn: "/usr/local/share/.cache/yarn" };
  const directory = packages.manager in target ? target[packages.manager as keyof typeof target] : "/root/.cache";
  return `RUN --mount=type=cache,id=${build.cacheNamespace}-${packages.manager},target=${directory} ${quoteRun(command)}`;
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
function pruneCommand(packages: Packages | null): string[] {
  if (packages?.manager === "npm") return ["npm prune --omit=dev"];
  if (packages?.manager === "pnpm") return ["CI=true pnpm prune --prod --ignore-scripts"];
  return [];
}

/** A user's command as the argument of RUN: the exec form, so that no line break or `<<` of it means anything to the parser. */
const quoteRun = (command: string): string => JSON.stringify(["/bin/sh", "-c", command]);

const quoteCopy = (paths: readonly string[]): string => JSON.stringify(paths);

/** Paths come from a manifest that holds them to plain characters; what is special to the parser is escaped all the same. */
const quoteWord = (word: string): string => `"${word.replaceAll(/["\\$]/g, "\\$&")}"`;

const lines = (all: readonly string[]): string => `${all.join("\n")}\n`;
