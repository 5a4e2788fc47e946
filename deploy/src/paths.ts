import { accessSync, constants, existsSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { ownProgram, type ProgramFile, thisNode } from "@svc/runtime/programs";

/** The repository's folder. */
export const repositoryRoot = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

/** Node 24 from node_modules, whatever Node the caller's PATH has. */
export function nodeBinary(): ProgramFile {
  const bundled = join(repositoryRoot, "node_modules", `node-linux-${process.arch}`, "bin", "node");
  return existsSync(bundled) ? ownProgram(bundled) : thisNode;
}

/** Where downloads and compiled code that survive `--fresh` are kept. */
export const defaultCacheDir = (env: NodeJS.ProcessEnv) =>
  join(env["XDG_CACHE_HOME"] || join(homedir(), ".cache"), "svc");

/** A directory in memory that this user may write: /run for root, else the session's own or /dev/shm. */
export function runtimeRoot(env: NodeJS.ProcessEnv): string {
  for (const dir of ["/run", env["XDG_RUNTIME_DIR"], "/dev/shm"]) {
    if (dir === undefined || dir === "") continue;
    try {
      accessSync(dir, constants.W_OK);
      return dir;
    } catch {}
  }
  return tmpdir();
}
