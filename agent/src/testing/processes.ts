import { readdir, readFile } from "node:fs/promises";

/** Command lines of this machine's processes that hold `mark`, that of the test itself aside. */
export async function processesWith(mark: string): Promise<string[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid);
  const lines = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "")));
  return lines.filter((line) => line.includes(mark));
}
