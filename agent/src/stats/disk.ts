import { statfs } from "node:fs/promises";
import { TaskFailure } from "../placements/failure.ts";

/** Throws while the node is too full to take in more. */
export type DiskGuard = () => Promise<void>;

const MB = 1024 * 1024;

/**
 * Refuses new work while any of the directories has less than `floorMb` free. What runs is not touched: a full
 * disk is bad enough without stopping sites over it. Directories that cannot be seen from here do not count.
 */
export function createDiskGuard(findDirs: () => Promise<readonly string[]>, floorMb: number): DiskGuard {
  return async () => {
    const free = await Promise.all((await findDirs()).map(freeMb));
    if (free.some((mb) => mb !== null && mb < floorMb)) {
      throw new TaskFailure("NODE_CAPACITY_UNAVAILABLE", "The node has too little free disk space. Try again later.", {
        isTransient: true,
      });
    }
  };
}

async function freeMb(dir: string): Promise<number | null> {
  try {
    const { bavail, bsize } = await statfs(dir);
    return Math.floor((bavail * bsize) / MB);
  } catch {
    return null;
  }
}
