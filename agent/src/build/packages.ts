/** How a Node project installs what it depends on. */
export type Packages = {
  manager: "npm" | "pnpm" | "yarn" | "yarn-berry" | "bun";
  /** Version to install the manager in; empty for the one of the base image, or the newest. */
  version: string;
  /** Whether a lock file pins every package. */
  locked: boolean;
  /** Files beside the manifests that decide what is installed, in the directory where packages are installed. */
  files: readonly string[];
  /** The same for whole directories: patches, and what a modern Yarn keeps in the tree. */
  directories: readonly string[];
  /**
   * Whether installing needs nothing but manifests, `files` and `directories`: then the layer is reused as long
   * as these stay equal.
   */
  separable: boolean;
  /** Scripts of the project's own that belong to an installation and are left to run once the sources are there. */
  deferred: readonly string[];
};

/** What is read of a `package.json`. Everything may be missing or of another type: a user wrote it. */
export type PackageJson = {
  main: string | null;
  packageManager: string | null;
  scripts: ReadonlyMap<string, string>;
  /** Names of all packages that it depends on, in whatever way. */
  dependencies: ReadonlySet<string>;
  hasWorkspaces: boolean;
  /** Whether something that is installed comes out of the tree, other than a package of the workspace. */
  hasLocalDependencies: boolean;
  hasPrograms: boolean;
};

/** Texts that the choice depends on; null for a file that is not there. */
export type PackageFacts = {
  /** Whether a file or a directory exists where packages are installed. */
  has(name: string): boolean;
  manifest: PackageJson | null;
  /** The other packages of the tree. */
  members: readonly PackageJson[];
  yarnLock: string | null;
  pnpmLock: string | null;
  /** The texts of `SETTINGS_FILES`, one after the other. */
  settings: string;
};

export const LOCK_FILES = [
  "package-lock.json",
  "npm-shrinkwrap.json",
  "pnpm-lock.yaml",
  "yarn.lock",
  "bun.lock",
  "bun.lockb",
] as const;
/** Settings of package managers. */
export const SETTINGS_FILES = ["pnpm-workspace.yaml", ".npmrc", ".yarnrc", ".yarnrc.yml", "bunfig.toml"] as const;
const FILES = [...LOCK_FILES, ...SETTINGS_FILES];
const DIRECTORIES = ["patches", ".yarn"];
/** In the order in which a package manager runs them. */
const INSTALL_SCRIPTS = ["preinstall", "install", "postinstall", "prepublish", "prepare"];
const PROGRAMS_OF_SETTINGS = [".pnpmfile.cjs", ".pnpmfile.mjs", "binding.gyp"];
/** A workspace of more packages is installed with all its sources at hand. */
const MEMBERS_MAX = 200;

/** Reads a `package.json`; null when it is not a JSON object. */
export function parsePackageJson(text: string): PackageJson | null {
  const value = parseObject(text);
  if (value === null) return null;
  const dependencies = ["dependencies", "devDependencies", "optionalDependencies"].flatMap((key) =>
    Object.entries(asObject(value[key]) ?? {}),
  );
  return {
    main: asText(value["main"]),
    packageManager: asText(value["packageManager"]),
    scripts: new Map(
      Object.entries(asObject(value["scripts"]) ?? {}).flatMap(([name, script]) =>
        typeof script === "string" ? [[name, script] as const] : [],
      ),
    ),
    dependencies: new Set(dependencies.map(([name]) => name)),
    hasWorkspaces: value["workspaces"] !== undefined,
    hasLocalDependencies: dependencies.some(
      ([, spec]) => typeof spec === "string" && /^(?:file|link|portal):/.test(spec),
    ),
    hasPrograms: value["bin"] !== undefined,
  };
}

/**
 * A `package.json` without what does not decide over what is installed: its scripts. They change often, and
 * those that run on an installation need the sources. Null when it is not a JSON object.
 */
export function installManifest(text: string): string | null {
  const value = parseObject(text);
  if (value === null) return null;
  const { scripts: _, ...rest } = value;
  return `${JSON.stringify(rest, null, 2)}\n`;
}

/** The package manager that the lock file stands for, or null when there is no `package.json`. */
export function detectPackages(facts: PackageFacts): Packages | null {
  const { has, manifest, yarnLock } = facts;
  if (manifest === null) return null;
  const pinned = parsePackageManager(manifest.packageManager);
  const base = {
    files: FILES.filter(has),
    directories: DIRECTORIES.filter(has),
    separable: isSeparable(facts),
    deferred: INSTALL_SCRIPTS.filter((name) => manifest.scripts.has(name)),
    locked: true,
  };
  const versionOf = (name: string): string => (pinned?.name === name ? pinned.version : "");
  if (has("package-lock.json") || has("npm-shrinkwrap.json")) {
    return { ...base, manager: "npm", version: versionOf("npm") };
  }
  if (has("pnpm-lock.yaml")) {
    return { ...base, manager: "pnpm", version: versionOf("pnpm") || pnpmOfLock(facts.pnpmLock ?? "") };
  }
  if (has("yarn.lock")) {
    const isBerry = yarnLock !== null && !yarnLock.includes("# yarn lockfile v1");
    return { ...base, manager: isBerry ? "yarn-berry" : "yarn", version: versionOf("yarn") };
  }
  if (has("bun.lock") || has("bun.lockb")) return { ...base, manager: "bun", version: versionOf("bun") };
  const unlocked = { ...base, locked: false, version: pinned?.version ?? "" };
  if (pinned?.name === "yarn") {
    return { ...unlocked, manager: pinned.version.startsWith("1.") ? "yarn" : "yarn-berry" };
  }
  if (pinned !== null) return { ...unlocked, manager: pinned.name };
  return { ...unlocked, manager: has("pnpm-workspace.yaml") ? "pnpm" : "npm" };
}

function isSeparable({ has, manifest, members, settings }: PackageFacts): boolean {
  const copiesPackages = /inject-?workspace-?packages/i.test(settings);
  return (
    manifest?.hasLocalDependencies === false &&
    !PROGRAMS_OF_SETTINGS.some(has) &&
    !copiesPackages &&
    members.length <= MEMBERS_MAX &&
    // A program of a workspace is linked where its file is, and scripts of a package need its sources.
    members.every(
      (member) =>
        !member.hasLocalDependencies &&
        !member.hasPrograms &&
        !INSTALL_SCRIPTS.some((name) => member.scripts.has(name)),
    )
  );
}

/** The newest pnpm that reads a lock file and treats it as the one that wrote it did; empty for the newest of all. */
function pnpmOfLock(text: string): string {
  const major = /^lockfileVersion: *['"]?(\d{1,3})\b/m.exec(text)?.[1];
  // Later ones than 10 refuse to install where scripts of packages were not decided over.
  return { "5": "7", "6": "8", "9": "10" }[major ?? ""] ?? "";
}

type Pinned = { name: "npm" | "pnpm" | "yarn" | "bun"; version: string };

/** `name@version`, optionally followed by a hash. Anything else is ignored: it would end up in a command. */
function parsePackageManager(text: string | null): Pinned | null {
  const match =
    /^(npm|pnpm|yarn|bun)@(\d{1,5}\.\d{1,5}\.\d{1,5}(?:-[A-Za-z0-9.]{1,30})?)(?:\+[A-Za-z0-9.=]{1,200})?$/.exec(
      text ?? "",
    );
  const [, name, version] = match ?? [];
  return name === undefined || version === undefined ? null : { name: name as Pinned["name"], version };
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
