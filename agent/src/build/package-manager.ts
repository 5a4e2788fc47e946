import type { Packages } from "./packages.ts";

interface Manager {
  /** How the manager itself is installed, given the version to have; null when the base image's will do. */
  provide(version: string): string | null;
  install(locked: boolean): string;
  /** Takes out what only the build needed, in place; null where that would take what the build made as well. */
  prune(packages: Packages): string | null;
  /** Whether that is done for the app's package alone, in its directory; otherwise where everything is installed. */
  prunesFromApp: boolean;
  /** Where it keeps what it downloaded. */
  cache: string;
  /** What it needs to know, in the build and in the result. */
  env: Readonly<Record<string, string>>;
}

const at = (name: string, version: string, otherwise: string): string =>
  `npm install --global ${name}@${version || otherwise}`;

const managers: Record<Packages["manager"], Manager> = {
  npm: {
    provide: (version) => (version === "" ? null : at("npm", version, "")),
    install: (locked) => (locked ? "npm ci" : "npm install"),
    prune: () => "npm prune --omit=dev",
    prunesFromApp: false,
    cache: "/root/.npm",
    env: { npm_config_update_notifier: "false", npm_config_fund: "false", npm_config_audit: "false" },
  },
  pnpm: {
    provide: (version) => at("pnpm", version, "latest"),
    install: (locked) => (locked ? "pnpm install --frozen-lockfile" : "pnpm install"),
    // `pnpm prune` takes everything from the packages of a workspace in several versions.
    prune: ({ locked }) => `pnpm install --prod${locked ? " --frozen-lockfile" : ""} --prefer-offline --ignore-scripts`,
    prunesFromApp: false,
    cache: "/root/.local/share/pnpm/store",
    env: {
      // In a running container nothing is installed any more.
      pnpm_config_verify_deps_before_run: "false",
      npm_config_verify_deps_before_run: "false",
    },
  },
  yarn: {
    provide: (version) => `${at("yarn", version, "1")}`,
    install: (locked) => (locked ? "yarn install --frozen-lockfile" : "yarn install"),
    prune: ({ locked }) =>
      `yarn install --production${locked ? " --frozen-lockfile" : ""} --prefer-offline --ignore-scripts`,
    prunesFromApp: false,
    cache: "/usr/local/share/.cache/yarn",
    env: {},
  },
  "yarn-berry": {
    provide: (version) => `${at("@yarnpkg/cli-dist", version, "4")}`,
    install: (locked) => (locked ? "yarn install --immutable" : "yarn install"),
    // Older ones have this as a plugin only.
    // Older ones have this as a plugin only, and it would run the project's own scripts without what they need.
    prune: ({ version, deferred }) =>
      /^[23]\./.test(version) || deferred.length > 0 ? null : "yarn workspaces focus --production",
    prunesFromApp: true,
    cache: "/root/.yarn/berry",
    // What it runs from has to be inside the project, and the folder of the running app belongs to another user.
    env: { YARN_ENABLE_GLOBAL_CACHE: "false", YARN_ENABLE_TELEMETRY: "false" },
  },
  bun: {
    provide: (version) => at("bun", version, "1"),
    install: (locked) => (locked ? "bun install --frozen-lockfile" : "bun install"),
    prune: () => null,
    prunesFromApp: false,
    cache: "/root/.bun/install/cache",
    env: {},
  },
};

/** What is known of the package manager of a project. */
export const managerOf = (packages: Packages): Manager => managers[packages.manager];
