import type { PackageJson } from "./package-json.ts";

export type PackageManager = "npm" | "pnpm" | "yarn" | "yarn-berry" | "bun";

export const lockFiles = [
  "package-lock.json",
  "npm-shrinkwrap.json",
  "pnpm-lock.yaml",
  "yarn.lock",
  "bun.lock",
  "bun.lockb",
] as const;

/** The manager and version that `packageManager` of a package.json pins. */
export interface Pinned {
  name: "npm" | "pnpm" | "yarn" | "bun";
  version: string;
}

/** The package manager that the lock file stands for, else the one that is pinned, else npm. */
export function detectPackageManager(facts: {
  /** Whether a file exists where packages are installed. */
  has(name: string): boolean;
  pinned: Pinned | null;
  /** The text of `yarn.lock`; null without one. */
  yarnLock: string | null;
}): { manager: PackageManager; locked: boolean } {
  const { has, pinned, yarnLock } = facts;
  const locked = true;
  if (has("package-lock.json") || has("npm-shrinkwrap.json")) return { manager: "npm", locked };
  if (has("pnpm-lock.yaml")) return { manager: "pnpm", locked };
  if (has("yarn.lock")) {
    const isBerry = yarnLock !== null && !yarnLock.includes("# yarn lockfile v1");
    return { manager: isBerry ? "yarn-berry" : "yarn", locked };
  }
  if (has("bun.lock") || has("bun.lockb")) return { manager: "bun", locked };
  if (pinned?.name === "yarn") {
    return { manager: pinned.version.startsWith("1.") ? "yarn" : "yarn-berry", locked: false };
  }
  if (pinned !== null) return { manager: pinned.name, locked: false };
  return { manager: has("pnpm-workspace.yaml") ? "pnpm" : "npm", locked: false };
}

/** `name@version`, optionally followed by a hash. Anything else is ignored: it would end up in a command. */
export function pinnedManager(manifest: PackageJson | null): Pinned | null {
  const match =
    /^(npm|pnpm|yarn|bun)@(\d{1,5}\.\d{1,5}\.\d{1,5}(?:-[A-Za-z0-9.]{1,30})?)(?:\+[A-Za-z0-9.=]{1,200})?$/.exec(
      manifest?.packageManager ?? "",
    );
  const [, name, version] = match ?? [];
  return name === undefined || version === undefined ? null : { name: name as Pinned["name"], version };
}

/** The command that runs a script of `package.json`. */
export function scriptCommand(manager: PackageManager, script: string): string {
  const name = manager === "yarn-berry" ? "yarn" : manager;
  return script === "start" && name !== "bun" ? `${name} start` : `${name} run ${script}`;
}

/** Whether installed programs are files in node_modules/.bin: a modern Yarn may keep packages packed. */
export const hasProgramFolder = (manager: PackageManager): boolean => manager !== "yarn-berry";
