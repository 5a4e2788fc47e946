import {
  detectPackageManager,
  LOCK_FILES,
  type PackageJson,
  type PackageManager,
  parseObject,
  pinnedManager,
} from "@svc/proto/frameworks";

/** How a Node project installs what it depends on. */
export type Packages = {
  manager: PackageManager;
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

/** Settings of package managers. */
export const SETTINGS_FILES = ["pnpm-workspace.yaml", ".npmrc", ".yarnrc", ".yarnrc.yml", "bunfig.toml"] as const;
const FILES = [...LOCK_FILES, ...SETTINGS_FILES];
const DIRECTORIES = ["patches", ".yarn"];
/** In the order in which a package manager runs them. */
const INSTALL_SCRIPTS = ["preinstall", "install", "postinstall", "prepublish", "prepare"];
const PROGRAMS_OF_SETTINGS = [".pnpmfile.cjs", ".pnpmfile.mjs", "binding.gyp"];
/** A workspace of more packages is installed with all its sources at hand. */
const MEMBERS_MAX = 200;

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
  const pinned = pinnedManager(manifest);
  const { manager, locked } = detectPackageManager({ has, pinned, yarnLock });
  const version = pinned !== null && manager.startsWith(pinned.name) ? pinned.version : "";
  return {
    manager,
    locked,
    version: version === "" && manager === "pnpm" && locked ? pnpmOfLock(facts.pnpmLock ?? "") : version,
    files: FILES.filter(has),
    directories: DIRECTORIES.filter(has),
    separable: isSeparable(facts),
    deferred: INSTALL_SCRIPTS.filter((name) => manifest.scripts.has(name)),
  };
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
