import { watch as watchFiles } from "node:fs";
import { lstat } from "node:fs/promises";
import type { Clock } from "@svc/runtime/clock";
import { isFileError } from "@svc/runtime/durable-file";
import { pause } from "@svc/runtime/sleep";
import { createWake } from "@svc/runtime/wake";
import { type Tree, walkTree } from "../deploy/tree.ts";

/** Names come and go many at a time: the directories are looked through again once that is over. */
const settleMs = 300;
const scanMs = 2000;
const idleMs = 3600_000;

/** Looks at the names of one directory, and not below; told which one something happened to, and null where that is not known. */
export type WatchDirectory = (
  directory: string,
  onEvent: (event: string, name: string | null) => void,
  onError: (cause: unknown) => void,
) => { close(): void };

/** The machine's own way. Keeps no process alive. */
export const watchDirectory: WatchDirectory = (directory, onEvent, onError) =>
  watchFiles(directory, { persistent: false }, (event, name) => onEvent(event, name)).on("error", onError);

export interface WatchOptions {
  clock: Clock;
  /** Ends the watch. */
  signal: AbortSignal;
  /** Something that goes along may have changed. */
  onChange(): void;
  /** The machine watches no more directories: from now on the tree is looked through every two seconds. */
  onScan(): void;
  watch?: WatchDirectory;
}

/** Whoever wants to know whether a name in a directory is left out. */
type IsLeftOut = (name: string, isDirectory: boolean) => boolean;

/**
 * Watches all directories of a tree that go along with a deploy, and no others: of what is left out nothing is heard.
 * Resolves once everything is watched.
 */
export async function watchTree(tree: Tree, options: WatchOptions): Promise<void> {
  const { clock, signal, onChange, onScan, watch = watchDirectory } = options;
  const watched = new Map<string, { isLeftOut: IsLeftOut; close(): void }>();
  const wake = createWake(clock);
  const hear = (directory: string, event: string, name: string | null) => {
    // Whether it is a directory is not said. Of one that is left out as such more is heard than needed, and never less.
    if (name !== null && watched.get(directory)?.isLeftOut(name, false) === true) return;
    if (event === "rename" || name === null || /^\.(?:git|svc)ignore$/.test(name)) wake.signal();
    onChange();
  };
  const closeAll = () => {
    for (const each of watched.values()) each.close();
    watched.clear();
  };
  /** True: all that is there now is watched. Throws what keeps the machine from watching. */
  const refresh = async (): Promise<{ isNew: boolean }> => {
    const kept = new Map<string, IsLeftOut>();
    await walkTree(tree, { enter: (directory, isLeftOut) => kept.set(directory, isLeftOut) });
    for (const [directory, each] of watched) {
      if (kept.has(directory)) continue;
      each.close();
      watched.delete(directory);
    }
    let isNew = false;
    for (const [directory, isLeftOut] of kept) {
      const there = watched.get(directory);
      if (there !== undefined) {
        there.isLeftOut = isLeftOut;
        continue;
      }
      const lost = () => {
        watched.get(directory)?.close();
        watched.delete(directory);
        wake.signal();
      };
      try {
        const one = watch(directory, (event, name) => hear(directory, event, name), lost);
        watched.set(directory, { isLeftOut, close: () => one.close() });
        isNew = true;
      } catch (thrown) {
        // Gone since it was listed; what took it away is heard by the directory above.
        if (!isFileError(thrown, "ENOENT", "ENOTDIR", "EACCES", "EPERM")) throw thrown;
      }
    }
    return { isNew };
  };
  const keepWatching = async () => {
    while (!signal.aborted) {
      const isWoken = await wake.wait(idleMs, signal);
      if (!isWoken || signal.aborted) continue;
      await pause(clock, settleMs, signal);
      try {
        // In a directory that is new to us something may have been written before we looked.
        if ((await refresh()).isNew) onChange();
      } catch (thrown) {
        if (isExhausted(thrown)) throw thrown;
        await pause(clock, scanMs, signal);
        // In the middle of a change. What comes next is looked at again, and the next sync says what is wrong.
        wake.signal();
      }
    }
  };
  /** Resolves once it is known what the tree is like now. */
  const beginScan = async () => {
    closeAll();
    onScan();
    const before = await fingerprint(tree);
    scanTree(tree, before, { clock, signal, onChange }).catch(onChange);
  };
  signal.addEventListener("abort", closeAll, { once: true });
  try {
    await refresh();
  } catch (thrown) {
    if (isExhausted(thrown)) return beginScan();
    // A directory that cannot be read, say: a deploy says so, and it may be mended.
    wake.signal();
  }
  keepWatching().catch(async () => {
    await beginScan();
    // What was saved until now nobody has heard.
    onChange();
  });
}

/** No more of what the system has for watching. */
const isExhausted = (thrown: unknown): boolean => isFileError(thrown, "ENOSPC", "EMFILE", "ENFILE");

/** Looks through a tree again and again, and tells when something is not as before. */
async function scanTree(
  tree: Tree,
  first: string,
  { clock, signal, onChange }: Pick<WatchOptions, "clock" | "signal" | "onChange">,
): Promise<void> {
  let before = first;
  while (!signal.aborted) {
    await pause(clock, scanMs, signal);
    const now = await fingerprint(tree);
    if (now !== before && !signal.aborted) onChange();
    before = now;
  }
}

/** Changes with every save: sizes, times and places of all files. */
async function fingerprint(tree: Tree): Promise<string> {
  const seen: string[] = [];
  try {
    await walkTree(tree, {
      take: async (file, path) => {
        const found = await lstat(file).catch(() => null);
        seen.push(`${path} ${found?.size} ${found?.mtimeMs} ${found?.ino} ${found?.mode}`);
      },
    });
  } catch (thrown) {
    seen.push(String(thrown));
  }
  return seen.join("\n");
}

/** A tree of files that no manifest speaks of. */
export const bareTree = (directory: string): Tree => ({
  directory,
  prefix: "",
  wanted: { files: new Set(), directories: [] },
});

/** For a hint: what gives this machine more watches. */
export const moreWatches =
  "This machine watches no more directories, so every two seconds they are looked through. More are allowed by `sudo sysctl fs.inotify.max_user_watches=524288`";
