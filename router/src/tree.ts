import { join } from "node:path";
import type { Clock, Timer } from "@svc/runtime/clock";
import { isFileError } from "@svc/runtime/durable-file";
import type { Log } from "./log.ts";
import { openBundleOf, parseEntry } from "./names.ts";
import type { TreeFiles } from "./tree-files.ts";
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

/** One file of the tree. */
interface Entry {
  host: string;
  name: string;
}

/** Much longer than a lookup takes from reading the directory to looking at the entry. */
const retireAfterMs = 250;

/**
 * Opens the tree, with whatever an earlier process left in it and Caddy is serving.
 *
 * @param immutablesDir where the links to files of open sites lead
 */
export function openTree(clock: Clock, files: TreeFiles, immutablesDir: string, log: Log): NameTree {
  const entries = new Map(files.found);
  const { links } = files;
  let sequence = nextSequence(entries);
  let ready = false;
  for (const host of links.names()) if (!entries.has(host)) links.put(host, null);
  /** Batches of entries that have no effect any more. */
  const retiring = new Map<Timer, Entry[]>();

  const removeAll = (idle: readonly Entry[]): void => {
    for (const { host, name } of idle) {
      try {
        files.remove(host, name);
      } catch (err) {
        // Without effect on what is served; the next start removes it.
        if (!isFileError(err, "ENOENT")) log.warn({ host, name, err }, "a replaced entry was not removed");
      }
    }
  };

  const run = (step: TreeStep): void => {
    const known = entries.get(step.host) ?? [];
    switch (step.do) {
      case "add":
        files.add(step.host, step.name);
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
        for (const name of files.names(step.host).sort().reverse()) files.remove(step.host, name);
        files.removeHost(step.host);
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
      const idle: Entry[] = [];
      for (const host of hosts) {
        try {
          // Before the entry: a page must not be there before its files, nor the files of a site once it has a password.
          const bundle = openBundleOf(wanted.get(host) ?? "");
          links.put(host, bundle === null ? null : join(immutablesDir, bundle));
        } catch (cause) {
          fail(failures, host, "link", cause);
        }
      }
      for (const step of treeSteps(entries, wanted, hosts, sequence)) {
        if (failures.has(step.host)) continue;
        try {
          run(step);
          if (step.do === "retire") idle.push(...step.names.map((name) => ({ host: step.host, name })));
        } catch (cause) {
          fail(failures, step.host, step.do, cause);
        }
      }
      sequence -= 1;
      if (idle.length > 0) {
        const timer = clock.after(retireAfterMs, () => {
          retiring.delete(timer);
          removeAll(idle);
        });
        retiring.set(timer, idle);
      }
      return failures;
    },
    async markReady() {
      if (!ready) await files.markReady();
      ready = true;
    },
    [Symbol.dispose]() {
      for (const [timer, idle] of retiring) {
        timer[Symbol.dispose]();
        removeAll(idle);
      }
      retiring.clear();
    },
  };
}

function targetOf(names: readonly string[]): string | null {
  const [inForce] = names.toSorted();
  return inForce === undefined ? null : (parseEntry(inForce)?.target ?? null);
}
