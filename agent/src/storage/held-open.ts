import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { findTrees, rootsOf } from "../build/cgroups.ts";
import { processesOf } from "../build/groups.ts";
import { bytesOf } from "./written.ts";

/**
 * Bytes of files whose last name is gone while one of the processes still holds them open: no directory has them any
 * more, and the disk does. Only files of `devices` count, since others lie in memory.
 */
export async function heldOpenBytes(
  pids: readonly number[],
  devices: ReadonlySet<number>,
  enough: number,
): Promise<number> {
  const seen = new Set<string>();
  let sum = 0;
  for (const pid of pids) {
    for (const path of await heldBy(pid)) {
      const stats = await stat(path).catch(() => null);
      if (stats === null || !stats.isFile() || stats.nlink > 0 || !devices.has(stats.dev)) continue;
      const key = `${stats.dev}:${stats.ino}`;
      if (!seen.has(key)) sum += bytesOf(stats, "blocks");
      seen.add(key);
      if (sum > enough) return sum;
    }
  }
  return sum;
}

/** What a process holds open, by any of its threads, or has in its memory. */
async function heldBy(pid: number): Promise<string[]> {
  const listed = (path: string): Promise<string[]> =>
    readdir(path).then(
      (names) => names.map((name) => join(path, name)),
      () => [],
    );
  const threads = await listed(`/proc/${pid}/task`);
  const open = await Promise.all(threads.map((thread) => listed(join(thread, "fd"))));
  return [...open.flat(), ...(await listed(`/proc/${pid}/map_files`))];
}

/** Those that files below the directories are on. */
export async function devicesOf(directories: readonly string[]): Promise<Set<number>> {
  const found = await Promise.all(directories.map((path) => stat(path).catch(() => null)));
  return new Set(found.flatMap((stats) => stats?.dev ?? []));
}

/** The processes of the container that `pid` belongs to; none when it is gone. */
export async function processesBeside(pid: number): Promise<number[]> {
  const trees = await findTrees();
  const lines = (await readFile(`/proc/${pid}/cgroup`, "utf8").catch(() => "")).split("\n");
  const wanted = trees.version === 1 ? "pids" : "";
  for (const line of lines) {
    const [, controllers = "", path = ""] = /^\d+:([^:]*):(.*)$/.exec(line) ?? [];
    if (controllers.split(",").includes(wanted)) return await processesOf(join(rootsOf(trees)[0] ?? "", path));
  }
  return [];
}
