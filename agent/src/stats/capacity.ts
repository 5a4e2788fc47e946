import { readFile, statfs } from "node:fs/promises";
import { cpus, totalmem } from "node:os";
import { systemReserveMb } from "./memory.ts";

/** What a node can take, in the units of the scheduler. */
export interface NodeCapacity {
  memoryMb: bigint;
  cpuMillicores: bigint;
  pids: bigint;
  diskMb: bigint;
}

const mb = 1024 * 1024;
const pidsWhenUnknown = 32_768;

/**
 * Measures the machine, without what it needs for itself; what the operator set takes precedence.
 *
 * @param dataDir a directory on the disk that containers and builds fill
 */
export async function measureCapacity(
  dataDir: string,
  set: { memoryMb: number | null; cpuMillicores: number | null },
): Promise<NodeCapacity> {
  const totalMb = Math.floor(totalmem() / mb);
  return {
    memoryMb: BigInt(set.memoryMb ?? totalMb - systemReserveMb(totalMb)),
    cpuMillicores: BigInt(set.cpuMillicores ?? cpus().length * 1000),
    pids: BigInt(await readPidLimit()),
    diskMb: BigInt(await readDiskMb(dataDir)),
  };
}

async function readPidLimit(): Promise<number> {
  try {
    const limit = Number((await readFile("/proc/sys/kernel/pid_max", "utf8")).trim());
    return Number.isSafeInteger(limit) && limit > 0 ? limit : pidsWhenUnknown;
  } catch {
    return pidsWhenUnknown;
  }
}

/** 0 when the directory cannot be seen from here, such as that of a remote engine. */
async function readDiskMb(dir: string): Promise<number> {
  try {
    const { bsize, blocks } = await statfs(dir);
    return Math.floor((bsize * blocks) / mb);
  } catch {
    return 0;
  }
}
