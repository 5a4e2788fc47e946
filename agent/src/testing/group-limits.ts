import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { findTrees } from "../build/cgroups.ts";
import type { Limits } from "../engine/engine.ts";

/** The limits that the kernel holds a process to, whatever the engine says of it. */
export async function groupLimits(pid: number): Promise<Limits> {
  const trees = await findTrees();
  const groups = (await readFile(`/proc/${pid}/cgroup`, "utf8")).trim().split("\n");
  const pathOf = (controller: string): string => {
    const found = groups.map((line) => line.split(":")).find(([, names = ""]) => names.split(",").includes(controller));
    return found?.[2] ?? "";
  };
  const read = async (root: string, path: string, file: string) =>
    (await readFile(join(root, path, file), "utf8")).trim();
  if (trees.version === 2) {
    const at = (file: string) => read(trees.unified, pathOf(""), file);
    const [quota, period] = (await at("cpu.max")).split(" ").map(Number);
    return limitsOf(await at("memory.max"), (quota ?? 0) / (period ?? 1), await at("pids.max"));
  }
  const cpu = (file: string) => read(trees.cpu, pathOf("cpu"), file);
  const share = Number(await cpu("cpu.cfs_quota_us")) / Number(await cpu("cpu.cfs_period_us"));
  const memory = await read(trees.memory, pathOf("memory"), "memory.limit_in_bytes");
  return limitsOf(memory, share, await read(trees.pids, pathOf("pids"), "pids.max"));
}

const limitsOf = (memoryBytes: string, processors: number, pids: string): Limits => ({
  memoryMb: Number(memoryBytes) / (1024 * 1024),
  cpuMillicores: Math.round(processors * 1000),
  pidsLimit: Number(pids),
});
