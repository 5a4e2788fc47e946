import { mkdirSync, readdirSync, renameSync, rmSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isFileError } from "@svc/runtime/durable-file";

/**
 * Files that Caddy reads at each handshake and for each question of a CA. In memory, like the table of names, and so
 * written without waiting. What is there is in force; what is not there has ended.
 */
export interface ServingFiles {
  put(name: string, content: string): void;
  remove(name: string): void;
  names(): string[];
}

/**
 * @param dir made when it is not there
 * @param modes of the directory and of files: keys are for Caddy's group and nobody else
 */
export function openServingFiles(dir: string, modes: { dir: number; file: number }): ServingFiles {
  mkdirSync(dir, { recursive: true, mode: modes.dir });
  // What was being written when an earlier process was killed.
  for (const name of readdirSync(dir)) if (name.startsWith(temporary)) rmSync(join(dir, name), { force: true });
  return {
    put(name, content) {
      // No name begins like this, so nobody looks it up before it is whole.
      const path = join(dir, `${temporary}${name}`);
      writeFileSync(path, content, { mode: modes.file });
      renameSync(path, join(dir, name));
    },
    remove(name) {
      try {
        unlinkSync(join(dir, name));
      } catch (cause) {
        if (!isFileError(cause, "ENOENT")) throw cause;
      }
    },
    names: () => readdirSync(dir),
  };
}

const temporary = ".tmp-";
