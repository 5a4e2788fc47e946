import { closeSync, mkdirSync, openSync, readdirSync, rmdirSync, unlinkSync } from "node:fs";
import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Clock, Timer } from "@svc/runtime/clock";
import { isFileError } from "@svc/runtime/durable-file";
import { openHostLinks } from "./host-links.ts";
import type { Log } from "./log.ts";
import {
  filesDirName,
  gateDirName,
  isHost,
  openBundleOf,
  parseEntry,
  predecessorsDirName,
  readyName,
} from "./names.ts";
import { nextSequence, type TreeStep, treeSteps } from "./tree-steps.ts";

/** The table of names: what Caddy looks hosts up in. One writer. */
export interface NameTree extends Disposable {
  /** Hosts that have an entry. */
  hosts(): Iterable<string>;
  /** Name of the target that a host serves; null for one without an entry. */
  target(host: string): string | null;
  /** Makes `hosts` serve `wanted` (target name by host). Returns why, for each host where that failed. */
  serve(hosts: readonly string[], wanted: ReadonlyMap<string, string>): Map<string, string>;
  /** From now on a host without entry is unknown, and not one that may still come. */
  markReady(): Promise<void>;
}

/** Much longer than a lookup takes from reading the directory to looking at the entry. */
const retireAfterMs = 250;

/**
 * Opens the tree in `dir`, with whatever an earlier process left in it and Caddy is serving. The tree is in
 * memory, where a synchronous call takes microseconds and a trip through the thread pool takes longer.
 *
 * @param immutablesDir where the links to files of open sites lead
 */
export async function openTree(clock: Clock, dir: string, immutablesDir: string, log: Log): Promise<NameTree> {
  await mkdir(dir, { recursive: true, mode: 0o755 });
  const entries = await readTree(dir);
  let sequence = nextSequence(entries);
  let ready = false;
  const files = openHostLinks(join(dir, filesDirName));
  for (const host of files.names()) if (!entries.has(host)) files.put(host, null);
  /** Batches of entries that have no effect any more. */
  const retiring = new Map<Timer, string[]>();

  const unlinkAll = (paths: readonly string[]): void => {
    for (const path of paths) {
      try {
        unlinkSync(path);
      } catch (err) {
        // Without effect on what is served; the next start removes it.
        if (!isFileError(err, "ENOENT")) log.warn({ path, err }, "a replaced entry was not removed");
      }
    }
  };

  const run = (step: TreeStep): void => {
    const known = entries.get(step.host) ?? [];
    const path = join(dir, step.host);
    switch (step.do) {
      case "add":
        mkdirSync(path, { recursive: true, mode: 0o755 });
        closeSync(openSync(join(path, step.name), "wx", 0o644));
        entries.set(step.host, [...known, step.name]);
        break;
      case "retire":
        entries.set(
          step.host,
          known.filter((name) => !step.names.includes(name)),
        );
        break;
      case "removeHost":
        // The newest goes last, or an older one would be served for a moment.
        for (const name of readdirSync(path).sort().reverse()) unlinkSync(join(path, name));
        rmdirSync(path);
        entries.delete(step.host);
    }
  };

  const fail = (failures: Map<string, string>, host: string, step: string, err: unknown): void => {
    log.error({ host, step, err }, "the table of names could not be changed");
    failures.set(host, "the edge could not write its table");
  };

  return {
    hosts: () => entries.keys(),
    target: (host) => targetOf(entries.get(host) ?? []),
    serve(hosts, wanted) {
      const failures = new Map<string, string>();
      const idle: string[] = [];
      for (const host of hosts) {
        try {
          // Before the entry: a page must not be there before its files, nor the files of a site once it has a password.
          const bundle = openBundleOf(wanted.get(host) ?? "");
          files.put(host, bundle === null ? null : join(immutablesDir, bundle));
        } catch (cause) {
          fail(failures, host, "link", cause);
        }
      }
      for (const step of treeSteps(entries, wanted, hosts, sequence)) {
        if (failures.has(step.host)) continue;
        try {
          run(step);
          if (step.do === "retire") idle.push(...step.names.map((name) => join(dir, step.host, name)));
        } catch (cause) {
          fail(failures, step.host, step.do, cause);
        }
      }
      sequence -= 1;
      if (idle.length > 0) {
        const timer = clock.after(retireAfterMs, () => {
          retiring.delete(timer);
          unlinkAll(idle);
        });
        retiring.set(timer, idle);
      }
      return failures;
    },
    async markReady() {
      if (!ready) await writeFile(join(dir, readyName), "", { mode: 0o644 });
      ready = true;
    },
    [Symbol.dispose]() {
      for (const [timer, paths] of retiring) {
        timer[Symbol.dispose]();
        unlinkAll(paths);
      }
      retiring.clear();
    },
  };
}

function targetOf(names: readonly string[]): string | null {
  const [inForce] = names.toSorted();
  return inForce === undefined ? null : (parseEntry(inForce)?.target ?? null);
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
