import { createHash } from "node:crypto";
import { type FSWatcher, watch } from "node:fs";
import { mkdir } from "node:fs/promises";
import { basename, join } from "node:path";
import type { Clock } from "@svc/runtime/clock";
import { pause } from "@svc/runtime/sleep";
import type { Owner } from "../engine/engine.ts";
import { readKernelLog } from "../engine/kernel-log.ts";
import { type OomScope, oomScopeOf } from "../engine/oom-scope.ts";
import type { Log } from "../log.ts";
import { findTrees, type GroupLimits, groupDirectories, oomFile, pidsFile, readCounter, rootsOf } from "./cgroups.ts";
import { limitFileSize } from "./file-limit.ts";
import {
  endGroup,
  goFirst,
  killAll,
  listPaths,
  moveAll,
  parent,
  prepareGroup,
  processesOf,
  readText,
} from "./groups.ts";
import { createStepStorage, type StepPlaces } from "./step-storage.ts";
import { findStep } from "./steps-of-engine.ts";

/** What the steps of one build may use together: memory, processor and processes, and room on the disk. 0 is no limit. */
export type StepLimits = GroupLimits & { storageMb: number };

/**
 * Holds build steps to limits and keeps them apart from one another: neither their Dockerfile nor engines before version
 * 23 can be asked to.
 */
export interface StepLimiter {
  /**
   * Readies a group for the steps of one build, before the first of them starts. Steps are told apart by `mark`,
   * a host name that the engine writes to their hosts file, so one mark has one build at a time.
   */
  open(mark: string, limits: StepLimits): Promise<StepGroup>;
  /** Ends what a former life of this agent left running, and removes its groups. */
  removeLeftovers(): Promise<void>;
}

export type StepGroup = AsyncDisposable & {
  /** Aborts when a step could not be held to the limits: the build must not go on. */
  readonly broken: AbortSignal;
  /** Steps that were put into the group so far. */
  caught(): number;
  /** What the kernel had to do to keep the limits; `outOfMemory` is null when it killed nothing. */
  pressure(): Promise<{ outOfMemory: OomScope | null; outOfProcesses: boolean }>;
  /** Bytes that the steps wrote to the disk so far; more than `enough` is not told apart. */
  written(enough: number): Promise<number>;
  /** Kills every process of every step. Resolves once none is left, or after five seconds. */
  kill(): Promise<void>;
};

const scanEveryMs = 100;
const mb = 1024 * 1024;
/** runc's own directory, and those below containerd's, one per name space. */
const stateDir = "/run/runc";
const stateDirs = "/run/containerd/runc";

/** What stands for a cache namespace on one node, in a form that fits a host name. */
export const buildMark = ({ clusterId, nodeId }: Owner, namespace: string): string =>
  `svc-build-${digest(JSON.stringify([clusterId, nodeId, namespace])).slice(0, 32)}`;

/** Names of the groups of one agent begin with this. */
export const groupPrefix = (owner: Owner): string =>
  `${digest(JSON.stringify([owner.clusterId, owner.nodeId])).slice(0, 8)}-`;

interface Group {
  mark: string;
  limits: StepLimits;
  path: string;
  take(step: string, places: StepPlaces, move: () => Promise<void>): void;
}

export function createStepLimiter(options: {
  clock: Clock;
  owner: Owner;
  log: Log;
  /** Where the engine keeps its data. */
  engineDir(): Promise<string>;
  /** Keeps the network of every step that there is by now apart from all others. */
  isolate(): Promise<void>;
}): StepLimiter {
  const { clock, log } = options;
  const prefix = groupPrefix(options.owner);
  const groups = new Map<string, Group>();
  const known = new Set<string>();
  const caches = new Map<string, number>();
  let watching: AbortController | null = null;
  const trees = once(findTrees);
  let isWarned = false;

  const warnOfRawSockets = (): void => {
    if (isWarned) return;
    isWarned = true;
    log.warn({}, "build steps of this engine have raw sockets: docs/hardening.md says how to take them away");
  };

  const engineDir = once(options.engineDir);

  /** Looks at a container that appeared. Ours is put into its group, as a rule before its process begins; a foreign one is left alone. */
  const meet = async (directory: string): Promise<void> => {
    if (known.has(directory) || groups.size === 0) return;
    known.add(directory);
    // Its network is set up before the runtime is told of it.
    const isolated = options.isolate();
    isolated.catch(() => {});
    const all = await trees();
    const found = await findStep(clock, directory, [...groups.keys()], all, await engineDir());
    const group = found === null ? undefined : groups.get(found.mark);
    if (found === null || group === undefined) return;
    if (found.hasRawSockets) warnOfRawSockets();
    group.take(directory, found.places, async () => {
      await isolated;
      // The tree of processes comes first: from then on they cannot become more than is allowed.
      for (const [index, root] of rootsOf(all).entries()) {
        await moveAll(clock, found.groups[index] ?? "", join(root, group.path));
      }
      const pids = await processesOf(join(rootsOf(all)[0] ?? "", group.path));
      await goFirst(pids);
      if (group.limits.storageMb === 0) return;
      await limitFileSize(pids, group.limits.storageMb * mb).catch((cause: unknown) =>
        log.warn(
          { step: basename(directory), reason: String(cause) },
          "the files of a build step have no limit of their own",
        ),
      );
    });
  };

  /** The same without an end: what fails is looked at again by the next scan. */
  const meetSafely = (directory: string): void => {
    meet(directory).catch((cause: unknown) => {
      known.delete(directory);
      log.warn({ step: basename(directory), reason: String(cause) }, "a build step could not be looked at");
    });
  };

  const scan = async (): Promise<void> => {
    const present = (await Promise.all((await stateDirectories()).map(listPaths))).flat();
    for (const path of known) if (!present.includes(path)) known.delete(path);
    for (const path of present) meetSafely(path);
  };

  /** Listens for new containers as long as a group is open; looks around as well, since an event can be lost. */
  const listen = async (signal: AbortSignal): Promise<void> => {
    await mkdir(stateDir, { recursive: true, mode: 0o711 });
    const watchers: FSWatcher[] = [];
    for (const directory of await stateDirectories()) {
      const watcher = watch(directory, { persistent: false }, (_, name) => {
        if (name !== null) meetSafely(join(directory, name));
      });
      watcher.on("error", (cause) =>
        log.warn({ directory, reason: String(cause) }, "build steps are only scanned for"),
      );
      watchers.push(watcher);
    }
    void (async () => {
      while (!signal.aborted) {
        await scan().catch((cause: unknown) => log.warn({ reason: String(cause) }, "build steps could not be listed"));
        await pause(clock, scanEveryMs, signal);
      }
      for (const watcher of watchers) watcher.close();
    })();
  };

  const close = async (group: Group): Promise<void> => {
    await endGroup(clock, await trees(), group.path);
    groups.delete(group.mark);
    if (groups.size > 0) return;
    watching?.abort();
    watching = null;
    known.clear();
  };

  return {
    async open(mark, limits) {
      const all = await trees();
      const path = join(parent, `${prefix}${digest(mark).slice(0, 16)}`);
      await endGroup(clock, all, path);
      await prepareGroup(all, path, limits);
      const broken = new AbortController();
      let caught = 0;
      let doomed = false;
      const storage = createStepStorage(caches, engineDir);
      const group: Group = {
        mark,
        limits,
        path,
        take(step, places, move) {
          storage.add(places).catch((cause: unknown) => {
            log.error({ step: basename(step), err: cause }, "what a build step writes is not known");
            broken.abort(cause);
          });
          move().then(
            () => {
              caught += 1;
              if (doomed) void killAll(clock, all, path);
            },
            (cause: unknown) => {
              log.error({ step: basename(step), err: cause }, "a build step could not be limited and kept apart");
              broken.abort(cause);
            },
          );
        },
      };
      groups.set(mark, group);
      if (watching === null) {
        watching = new AbortController();
        await listen(watching.signal);
      }
      return {
        broken: broken.signal,
        caught: () => caught,
        async pressure() {
          const [killed, refused] = await Promise.all([readText(oomFile(all, path)), readText(pidsFile(all, path))]);
          const hasKilled = readCounter(killed, "oom_kill") > 0;
          return {
            outOfMemory: hasKilled ? oomScopeOf(await readKernelLog(), basename(path)) : null,
            outOfProcesses: readCounter(refused, "max") > 0,
          };
        },
        written: async (enough) => storage.written(await processesOf(join(rootsOf(all)[0] ?? "", path)), enough),
        kill() {
          doomed = true;
          return killAll(clock, all, path);
        },
        async [Symbol.asyncDispose]() {
          doomed = true;
          await close(group);
          await storage
            .settle()
            .catch((cause: unknown) => log.warn({ reason: String(cause) }, "what build caches hold is not known"));
        },
      };
    },

    async removeLeftovers() {
      const all = await trees();
      const names = (await Promise.all(groupDirectories(all, parent).map(listPaths)))
        .flat()
        .map((path) => basename(path));
      for (const name of new Set(names)) if (name.startsWith(prefix)) await endGroup(clock, all, join(parent, name));
    },
  };
}

async function stateDirectories(): Promise<string[]> {
  return [stateDir, ...(await listPaths(stateDirs))];
}

const digest = (text: string): string => createHash("sha256").update(text).digest("hex");

/** Asks once; a failure is not remembered. */
function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | null = null;
  return async () => {
    made ??= make();
    try {
      return await made;
    } catch (cause) {
      made = null;
      throw cause;
    }
  };
}
