import { mkdir, readdir, readFile, rmdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "@svc/runtime/clock";
import { sleep } from "@svc/runtime/sleep";
import { buildOomScore } from "../engine/pressure.ts";
import { type CgroupTrees, type GroupLimits, groupDirectories, limitSettings, type Setting } from "./cgroups.ts";

/** The control group, in each tree, that holds the groups of all builds of this machine. */
export const parent = "svc-build";
const moveWithinMs = 10_000;
const lookAgainMs = 2;
/** After so many rounds that moved something it forks faster than it is moved, and is kept from forking. */
const patientRounds = 10;
const endWithinMs = 5_000;

/** Makes the group at `path` of each tree. */
export async function prepareGroup(trees: CgroupTrees, path: string, limits: GroupLimits): Promise<void> {
  if (trees.version === 2) {
    const value = "+cpu +memory +pids";
    await mkdir(join(trees.unified, parent), { recursive: true });
    const files = [trees.unified, join(trees.unified, parent)].map((at) => join(at, "cgroup.subtree_control"));
    await writeSettings(files.map((file) => ({ file, value })));
  }
  for (const directory of groupDirectories(trees, path)) await mkdir(directory, { recursive: true });
  await writeSettings(limitSettings(trees, path, limits));
}

/** Writes in order. What is optional and not there is left out. */
async function writeSettings(settings: readonly Setting[]): Promise<void> {
  for (const { file, value, optional } of settings) {
    try {
      await writeFile(file, value, { flag: "r+" });
    } catch (cause) {
      if (!(optional === true && isGone(cause))) throw cause;
    }
  }
}

/**
 * Moves every process, and those that it starts meanwhile, until none is left behind. One that is ending can no more be
 * moved, and is listed until the kernel is done with it: on a busy machine that takes a while.
 */
export async function moveAll(clock: Clock, from: string, to: string): Promise<void> {
  const endsAtMs = clock.now().getTime() + moveWithinMs;
  let rounds = 0;
  let refused: unknown;
  while (clock.now().getTime() < endsAtMs) {
    const pids = await processesOf(from);
    if (pids.length === 0) return;
    if (rounds === patientRounds) await writeSettings([{ file: join(from, "pids.max"), value: "1", optional: true }]);
    let moved = 0;
    for (const pid of pids) {
      try {
        await writeFile(join(to, "cgroup.procs"), String(pid), { flag: "r+" });
        moved += 1;
      } catch (cause) {
        if (!isGone(cause)) refused = cause;
      }
    }
    if (moved > 0) rounds += 1;
    if (moved === 0 || rounds > patientRounds) await sleep(clock, lookAgainMs);
  }
  throw new Error(`${from} still holds processes`, { cause: refused });
}

/** Has the kernel end these processes, and what they start, before all others when the machine is out of memory. */
export async function goFirst(pids: readonly number[]): Promise<void> {
  for (const pid of pids) {
    await writeSettings([{ file: `/proc/${pid}/oom_score_adj`, value: String(buildOomScore), optional: true }]);
  }
}

/** Kills every process of a group. Resolves once none is left, or after five seconds. */
export async function killAll(clock: Clock, trees: CgroupTrees, path: string): Promise<void> {
  const directories = groupDirectories(trees, path);
  const endsAtMs = clock.now().getTime() + endWithinMs;
  while (clock.now().getTime() < endsAtMs) {
    const pids = (await Promise.all(directories.map(processesOf))).flat();
    if (pids.length === 0) return;
    for (const pid of new Set(pids)) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // Gone by itself.
      }
    }
    await sleep(clock, 20);
  }
}

/** Kills what runs in a group and removes it. */
export async function endGroup(clock: Clock, trees: CgroupTrees, path: string): Promise<void> {
  await killAll(clock, trees, path);
  const endsAtMs = clock.now().getTime() + endWithinMs;
  for (const directory of groupDirectories(trees, path)) {
    while (!(await removed(directory)) && clock.now().getTime() < endsAtMs) await sleep(clock, 20);
  }
}

async function removed(directory: string): Promise<boolean> {
  try {
    await rmdir(directory);
    return true;
  } catch (cause) {
    // Anything else is a process that the kernel has not let go yet.
    return isGone(cause);
  }
}

/** Process ids in a group; none when it is gone. */
export async function processesOf(directory: string): Promise<number[]> {
  return (await readText(join(directory, "cgroup.procs")))
    .split("\n")
    .map(Number)
    .filter((pid) => pid > 0);
}

/** The directories in a directory; none when it is not there. */
export async function listPaths(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { withFileTypes: true }).catch(() => []);
  return entries.filter((entry) => entry.isDirectory()).map((entry) => join(directory, entry.name));
}

/** Empty when the file is not there any more. */
export async function readText(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (cause) {
    if (isGone(cause)) return "";
    throw cause;
  }
}

const isGone = (cause: unknown): boolean =>
  cause instanceof Error && "code" in cause && ["ENOENT", "ESRCH", "ENODEV"].includes(String(cause.code));
