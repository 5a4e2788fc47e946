import { readdir, readFile } from "node:fs/promises";

/** This machine's processes whose command line holds `mark`, that of the test itself aside. */
export async function findProcesses(mark: string): Promise<{ pid: number; line: string }[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid);
  const found = await Promise.all(
    pids.map(async (pid) => ({
      pid: Number(pid),
      line: await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => ""),
    })),
  );
  return found.filter(({ line }) => line.includes(mark));
}

/** Their command lines. */
export const processesWith = async (mark: string): Promise<string[]> =>
  (await findProcesses(mark)).map(({ line }) => line);
