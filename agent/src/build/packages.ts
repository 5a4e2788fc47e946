/** How a Node project installs what it depends on. */
export type Packages = {
  manager: "npm" | "pnpm" | "yarn" | "yarn-berry" | "bun";
  /** Version to install the manager in; empty for the one of the base image, or the newest. */
  version: string;
  /** Whether a lock file pins every package. */
  locked: boolean;
  /** Files that decide what is installed: copied first, so that the layer is reused while they stay equal. */
  manifests: readonly string[];
  /** Whether installing needs nothing but `manifests`. */
  separable: boolean;
};

/** What is read of a `package.json`. Everything may be missing or of another type: a user wrote it. */
export type PackageJson = {
  main: string | null;
  packageManager: string | null;
  scripts: ReadonlyMap<string, string>;
  hasWorkspaces: boolean;
  hasLocalDependencies: boolean;
};

const MANIFESTS = [
  "package.json",
  "package-lock.json",
  "npm-shrinkwrap.json",
  "pnpm-lock.yaml",
  "pnpm-workspace.yaml",
  "yarn.lock",
  "bun.lock",
  "bun.lockb",
  ".npmrc",
  ".yarnrc",
  ".yarnrc.yml",
];
const INSTALL_SCRIPTS = ["preinstall", "install", "postinstall", "prepare", "prepublish"];

/** Reads a `package.json`; null when it is not a JSON object. */
export function parsePackageJson(text: string): PackageJson | null {
  const value = parseObject(text);
  if (value === null) return null;
  const dependencies = ["dependencies", "devDependencies", "optionalDependencies"].flatMap((key) =>
    Object.values(asObject(value[key]) ?? {}),
  );
  return {
    main: asText(value["main"]),
    packageManager: asText(value["packageManager"]),
    scripts: new Map(
      Object.entries(asObject(value["scripts"]) ?? {}).flatMap(([name, script]) =>
        typeof script === "string" ? [[name, script] as const] : [],
      ),
    ),
    hasWorkspaces: value["workspaces"] !== undefined,
    hasLocalDependencies: dependencies.some(
      (spec) => typeof spec === "string" && /^(?:file|link|portal|workspace|patch):/.test(spec),
    ),
  };
}

/**
 * The package manager that the lock file stands for, or null when there is no `package.json`.
 *
 * @param has whether a file exists in the project's directory
 * @param yarnLock text of `yarn.lock`: its first lines tell the two generations of Yarn apart
 */
export function detectPackages(
  has: (name: string) => boolean,
  manifest: PackageJson | null,
  yarnLock: string | null,
): Packages | null {
  if (manifest === null) return null;
  const pinned = parsePackageManager(manifest.packageManager);
  const base = {
    manifests: MANIFESTS.filter(has),
    separable:
      !manifest.hasWorkspaces &&
      !manifest.hasLocalDependencies &&
      !has("pnpm-workspace.yaml") &&
      !INSTALL_SCRIPTS.some((name) => manifest.scripts.has(name)),
  };
  const versionOf = (name: string): string => (pinned?.name === name ? pinned.version : "");
  if (has("package-lock.json") || has("npm-shrinkwrap.json")) {
    return { ...base, manager: "npm", version: versionOf("npm"), locked: true };
  }
  if (has("pnpm-lock.yaml")) return { ...base, manager: "pnpm", version: versionOf("pnpm"), locked: true };
  if (has("yarn.lock")) {
    const isBerry = yarnLock !== null && !yarnLock.includes("# yarn lockfile v1");
    // The settings of a modern Yarn may name a copy of itself and plugins in the tree.
    return isBerry
      ? { ...base, separable: false, manager: "yarn-berry", version: versionOf("yarn"), locked: true }
      : { ...base, manager: "yarn", version: versionOf("yarn"), locked: true };
  }
  if (has("bun.lock") || has("bun.lockb")) return { ...base, manager: "bun", version: versionOf("bun"), locked: true };
  const unlocked = pinned?.name === "pnpm" || pinned?.name === "yarn" || pinned?.name === "bun" ? pinned.name : "npm";
  return { ...base, manager: unlocked, version: versionOf(unlocked), locked: false };
}

/** `name@version`, optionally followed by a hash. Anything else is ignored: it would end up in a command. */
function parsePackageManager(text: string | null): { name: string; version: string } | null {
  const match =
    /^(npm|pnpm|yarn|bun)@(\d{1,5}\.\d{1,5}\.\d{1,5}(?:-[A-Za-z0-9.]{1,30})?)(?:\+[A-Za-z0-9.=]{1,200})?$/.exec(
      text ?? "",
    );
  const [, name, version] = match ?? [];
  return name === undefined || version === undefined ? null : { name, version };
}

function parseObject(text: string): Record<string, unknown> | null {
  try {
    return asObject(JSON.parse(text));
  } catch {
    return null;
  }
}

const asObject = (value: unknown): Record<string, unknown> | null =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : null;

const asText = (value: unknown): string | null => (typeof value === "string" && value !== "" ? value : null);
