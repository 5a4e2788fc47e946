import { readdir, readFile } from "node:fs/promises";

/** Of the kernel's clock for process times. */
const ticksPerSecond = 100;

interface Process {
  pid: number;
  parent: number;
  microseconds: number;
}

async function readProcess(pid: number): Promise<Process | null> {
  // Null when it has ended since it was listed.
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => null);
  if (stat === null) return null;
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const [parent, user, system] = [fields[1], fields[11], fields[12]].map(Number);
  return { pid, parent: parent ?? 0, microseconds: (((user ?? 0) + (system ?? 0)) * 1_000_000) / ticksPerSecond };
}

/** Processor time so far, µs: of the process itself, and of those that it started, directly or not. */
export async function processorTime(pid: number): Promise<{ own: number; below: number }> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(Number);
  const processes = (await Promise.all(pids.map(readProcess))).filter((each) => each !== null);
  const family = new Set([pid]);
  for (let before = 0; before < family.size; ) {
    before = family.size;
    for (const each of processes) if (family.has(each.parent)) family.add(each.pid);
  }
  const sum = (of: readonly Process[]) => of.reduce((total, each) => total + each.microseconds, 0);
  return {
    own: sum(processes.filter((each) => each.pid === pid)),
    below: sum(processes.filter((each) => each.pid !== pid && family.has(each.pid))),
  };
}
