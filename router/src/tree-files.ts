import { closeSync, mkdirSync, openSync, readdirSync, rmdirSync, unlinkSync } from "node:fs";
import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type HostLinks, openHostLinks } from "./host-links.ts";
import { filesDirName, gateDirName, isHost, parseEntry, predecessorsDirName, readyName } from "./names.ts";

/**
 * Where the table of names is for Caddy to look at: a directory per host, with empty files as entries. In memory, where a
 * synchronous call takes microseconds and a trip through the thread pool takes longer.
 */
export interface TreeFiles {
  /** Entries by host, as an earlier process left them. */
  readonly found: ReadonlyMap<string, readonly string[]>;
  /** To the files of open sites. */
  readonly links: HostLinks;
  /** Makes an entry that is not there, and the directory of its host; in force at once. */
  add(host: string, name: string): void;
  /** Every entry that is there. */
  names(host: string): string[];
  /** Throws ENOENT when it is not there. */
  remove(host: string, name: string): void;
  /** The directory of a host, which is empty. */
  removeHost(host: string): void;
  /** Puts the mark there that says that the table is complete. */
  markReady(): Promise<void>;
}

/** Files in `dir`, which is made; whatever is not ours in it is removed. */
export async function openTreeFiles(dir: string): Promise<TreeFiles> {
  await mkdir(dir, { recursive: true, mode: 0o755 });
  return {
    found: await readTree(dir),
    links: openHostLinks(join(dir, filesDirName)),
    add(host, name) {
      mkdirSync(join(dir, host), { recursive: true, mode: 0o755 });
      closeSync(openSync(join(dir, host, name), "wx", 0o644));
    },
    names: (host) => readdirSync(join(dir, host)),
    remove: (host, name) => unlinkSync(join(dir, host, name)),
    removeHost: (host) => rmdirSync(join(dir, host)),
    markReady: () => writeFile(join(dir, readyName), "", { mode: 0o644 }),
  };
}

const ours: ReadonlySet<string> = new Set([readyName, gateDirName, filesDirName, predecessorsDirName]);

/** What is there by host; whatever is not ours is removed. */
async function readTree(dir: string): Promise<Map<string, string[]>> {
  const tree = new Map<string, string[]>();
  for (const found of await readdir(dir, { withFileTypes: true })) {
    const path = join(dir, found.name);
    if (ours.has(found.name)) continue;
    if (!found.isDirectory() || !isHost(found.name)) {
      await rm(path, { recursive: true, force: true });
      continue;
    }
    const names = await readdir(path);
    const foreign = names.filter((name) => parseEntry(name) === null);
    for (const name of foreign) await rm(join(path, name), { recursive: true, force: true });
    tree.set(
      found.name,
      names.filter((name) => !foreign.includes(name)),
    );
  }
  return tree;
}
