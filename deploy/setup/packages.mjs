import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { runForeground, SetupError } from "./run.mjs";

const readJson = (path) => (existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : null);

/**
 * Whether node_modules holds what the lock file says. npm writes the installed set to a hidden lock
 * file as its last step, so an interrupted installation counts as not installed. Optional packages
 * (other platforms) may be absent.
 */
export function isInstalled(locked, installed) {
  if (locked === null || installed === null) return false;
  return Object.entries(locked.packages).every(([path, want]) => {
    if (path === "" || !path.includes("node_modules/")) return true;
    const have = installed.packages[path];
    if (have === undefined) return want.optional === true || want.devOptional === true;
    return have.version === want.version && have.integrity === want.integrity;
  });
}

/** The Node binary of the version this repository runs on, from node_modules. */
export const nodeBinary = (root) =>
  join(root, "node_modules", `node-${process.platform}-${process.arch}`, "bin", "node");

/** Installs the npm packages unless node_modules already matches package-lock.json. */
export async function ensurePackages(root) {
  const matches = () =>
    isInstalled(readJson(join(root, "package-lock.json")), readJson(join(root, "node_modules/.package-lock.json")));
  if (!matches()) {
    console.error("svc: installing npm packages");
    const code = await runForeground(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], {
      cwd: root,
      // Standard output stays free for what the command itself prints.
      stdio: ["ignore", 2, 2],
    });
    if (code !== 0) throw new SetupError("npm ci failed; see above");
  }
  if (!existsSync(nodeBinary(root))) {
    throw new SetupError(
      `no Node binary for ${process.platform}-${process.arch} in node_modules: this repository runs on Linux, x64 and arm64, and needs npm's optional packages (do not pass --omit=optional)`,
    );
  }
}
