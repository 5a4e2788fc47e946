import { readFile } from "node:fs/promises";
import { join } from "node:path";

/** What control groups hold the steps of one build to, together. 0 is no limit. */
export interface GroupLimits {
  memoryMb: number;
  cpuMillicores: number;
  pidsLimit: number;
}

/** Where the kernel's three controllers are found: one tree each (version 1) or all in one (version 2). */
export type CgroupTrees = { version: 1; memory: string; cpu: string; pids: string } | { version: 2; unified: string };

/** A value for a file of a control group. A file that may not be there is `optional`. */
export interface Setting {
  file: string;
  value: string;
  optional?: boolean;
}

const periodUs = 100_000;
const controllers = ["memory", "cpu", "pids"] as const;

/** Reads where the trees are mounted; null when this machine has not all three controllers. */
export function parseTrees(mounts: string): CgroupTrees | null {
  const found = new Map<string, string>();
  let unified: string | null = null;
  for (const line of mounts.split("\n")) {
    const [, path = "", type, options = ""] = line.split(" ");
    if (type === "cgroup2") unified ??= path;
    if (type !== "cgroup") continue;
    for (const option of options.split(",")) if (!found.has(option)) found.set(option, path);
  }
  const [memory, cpu, pids] = controllers.map((name) => found.get(name));
  if (memory !== undefined && cpu !== undefined && pids !== undefined) return { version: 1, memory, cpu, pids };
  // In a mixed set-up the second version is mounted too, but without controllers.
  return memory === undefined && unified !== null ? { version: 2, unified } : null;
}

/** The trees of this machine. Throws when there are none to limit anything with. */
export async function findTrees(): Promise<CgroupTrees> {
  const trees = parseTrees(await readFile("/proc/mounts", "utf8"));
  if (trees === null) throw new Error("this machine has no memory, cpu and pids control groups");
  return trees;
}

/** Directories of the group `name`: the one that lists its processes first, each once. */
export function groupDirectories(trees: CgroupTrees, name: string): string[] {
  return rootsOf(trees).map((root) => join(root, name));
}

export const rootsOf = (trees: CgroupTrees): string[] =>
  trees.version === 1 ? [trees.pids, trees.memory, trees.cpu] : [trees.unified];

/** What to write to hold everything in the group at `path` of each tree to `limits`. */
export function limitSettings(trees: CgroupTrees, path: string, limits: GroupLimits): Setting[] {
  const bytes = limits.memoryMb === 0 ? null : String(limits.memoryMb * 1024 * 1024);
  const quota = limits.cpuMillicores === 0 ? null : String((limits.cpuMillicores * periodUs) / 1000);
  const pids = limits.pidsLimit === 0 ? "max" : String(limits.pidsLimit);
  if (trees.version === 2) {
    const at = (file: string): string => join(trees.unified, path, file);
    return [
      { file: at("pids.max"), value: pids },
      { file: at("memory.max"), value: bytes ?? "max" },
      // Only there when the kernel counts swap.
      { file: at("memory.swap.max"), value: bytes === null ? "max" : "0", optional: true },
      { file: at("cpu.max"), value: `${quota ?? "max"} ${periodUs}` },
    ];
  }
  return [
    { file: join(trees.pids, path, "pids.max"), value: pids },
    { file: join(trees.memory, path, "memory.limit_in_bytes"), value: bytes ?? "-1" },
    { file: join(trees.memory, path, "memory.memsw.limit_in_bytes"), value: bytes ?? "-1", optional: true },
    { file: join(trees.cpu, path, "cpu.cfs_period_us"), value: String(periodUs) },
    { file: join(trees.cpu, path, "cpu.cfs_quota_us"), value: quota ?? "-1" },
  ];
}

/** File that counts processes which the kernel killed for want of memory, as `oom_kill <n>`. */
export const oomFile = (trees: CgroupTrees, path: string): string =>
  trees.version === 1 ? join(trees.memory, path, "memory.oom_control") : join(trees.unified, path, "memory.events");

/** File that counts processes which were refused, as `max <n>`. */
export const pidsFile = (trees: CgroupTrees, path: string): string =>
  join(trees.version === 1 ? trees.pids : trees.unified, path, "pids.events");

/** The number behind `key` in a file of `key number` lines; 0 when it is not there. */
export const readCounter = (text: string, key: string): number =>
  Number(new RegExp(`^${key} (\\d+)$`, "m").exec(text)?.[1] ?? 0);
