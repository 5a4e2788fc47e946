import {
  detectPackageManager,
  lockFiles,
  type PackageJson,
  type PackageManager,
  parseObject,
  pinnedManager,
} from "@svc/proto/frameworks";

/** How a Node project installs what it depends on. */
export interface Packages {
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
}

/** Texts that the choice depends on; null for a file that is not there. */
export interface PackageFacts {
  /** Whether a file or a directory exists where packages are installed. */
  has(name: string): boolean;
  manifest: PackageJson | null;
  /** The other packages of the tree. */
  members: readonly PackageJson[];
  yarnLock: string | null;
  pnpmLock: string | null;
  /** The texts of `settingsFiles`, one after the other. */
  settings: string;
}

/** Settings of package managers. */
export const settingsFiles = ["pnpm-workspace.yaml", ".npmrc", ".yarnrc", ".yarnrc.yml", "bunfig.toml"] as const;
const files = [...lockFiles, ...settingsFiles];
const directories = ["patches", ".yarn"];
/** In the order in which a package manager runs them. */
const installScripts = ["preinstall", "install", "postinstall", "prepublish", "prepare"];
const programsOfSettings = [".pnpmfile.cjs", ".pnpmfile.mjs", "binding.gyp"];
/** A workspace of more packages is installed with all its sources at hand. */
const membersMax = 200;

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
    files: files.filter(has),
    directories: directories.filter(has),
    separable: isSeparable(facts),
    deferred: installScripts.filter((name) => manifest.scripts.has(name)),
  };
}

function isSeparable({ has, manifest, members, settings }: PackageFacts): boolean {
  const copiesPackages = /inject-?workspace-?packages/i.test(settings);
  return (
    manifest?.hasLocalDependencies === false &&
    !programsOfSettings.some(has) &&
    !copiesPackages &&
    members.length <= membersMax &&
    // A program of a workspace is linked where its file is, and scripts of a package need its sources.
    members.every(
      (member) =>
        !member.hasLocalDependencies && !member.hasPrograms && !installScripts.some((name) => member.scripts.has(name)),
    )
  );
}

/** The newest pnpm that reads a lock file and treats it as the one that wrote it did; empty for the newest of all. */
function pnpmOfLock(text: string): string {
  const major = /^lockfileVersion: *['"]?(\d{1,3})\b/m.exec(text)?.[1];
  // Later ones than 10 refuse to install where scripts of packages were not decided over.
  return { "5": "7", "6": "8", "9": "10" }[major ?? ""] ?? "";
}
