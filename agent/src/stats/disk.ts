import { statfs } from "node:fs/promises";
import type { Clock } from "@svc/runtime/clock";
import { pause } from "@svc/runtime/sleep";
import type { Log } from "../log.ts";
import { TaskFailure } from "../placements/failure.ts";

/** Throws while the node is too full to take in more. */
export type DiskGuard = () => Promise<void>;

/** Watches the free space of the disks that images, containers and builds fill. */
export interface DiskWatch {
  /** Makes room when there is too little, and throws NODE_CAPACITY_UNAVAILABLE when that does not help. */
  check: DiskGuard;
  /** As it was found last. */
  isFull(): boolean;
  /** Looks from time to time, until the signal aborts. */
  watch(signal: AbortSignal): Promise<void>;
}

const mb = 1024 * 1024;
const usualLookMs = 30_000;
/** Making room that did not help is not worth trying again at once. */
const reclaimPauseMs = 60_000;
/** A floor of its own for each disk, unless the operator set one: this share, within these bounds. */
const floorShare = 0.05;
const floorMinMb = 2048;
const floorMaxMb = 10_240;
/** So much above the floor there is room again, so that the next image does not go below it at once. */
const relief = 1.25;

export interface Disk {
  freeMb: number;
  sizeMb: number;
}

/** Space that has to stay free on a disk of that size. */
export const floorMb = ({ sizeMb }: Pick<Disk, "sizeMb">, set: number | null): number =>
  set ?? Math.min(floorMaxMb, Math.max(floorMinMb, Math.floor(sizeMb * floorShare)));

/**
 * Refuses new work while any of the directories has too little space left. What runs is not touched: a full disk
 * is bad enough without stopping sites over it. Directories that cannot be seen from here do not count.
 *
 * @param set the floor in MB; null for one that fits the disk
 * @param reclaim makes room until the given question says that it is enough, or nothing is left that could go
 */
export function createDiskWatch(options: {
  clock: Clock;
  findDirs(): Promise<readonly string[]>;
  set: number | null;
  reclaim(isEnough: () => Promise<boolean>): Promise<void>;
  log: Log;
}): DiskWatch {
  const { clock, log } = options;
  let isFull = false;
  let reclaiming: Promise<void> | null = null;
  let inVainAtMs = Number.NEGATIVE_INFINITY;

  const isBelow = async (share = 1): Promise<boolean> => {
    const disks = await Promise.all((await options.findDirs()).map(measure));
    return disks.some((disk) => disk !== null && disk.freeMb < floorMb(disk, options.set) * share);
  };
  const note = (found: boolean): boolean => {
    if (found !== isFull) log.warn({ full: found }, found ? "the disk is almost full" : "the disk has room again");
    isFull = found;
    return found;
  };
  const makeRoom = async (): Promise<void> => {
    try {
      await options.reclaim(async () => !(await isBelow(relief)));
    } catch (cause) {
      log.error({ err: cause }, "no room could be made on the disk");
    }
    try {
      inVainAtMs = (await isBelow()) ? clock.steadyMs() : Number.NEGATIVE_INFINITY;
    } finally {
      // Only now, so that whoever asks in between finds one or the other.
      reclaiming = null;
    }
  };
  const look = async (): Promise<boolean> => {
    if (!(await isBelow())) return note(false);
    if (reclaiming === null && clock.steadyMs() - inVainAtMs < reclaimPauseMs) return note(true);
    reclaiming ??= makeRoom();
    await reclaiming;
    return note(await isBelow());
  };

  return {
    isFull: () => isFull,
    async check() {
      if (!(await look())) return;
      throw new TaskFailure("NODE_CAPACITY_UNAVAILABLE", "The node has too little free disk space. Try again later.", {
        isTransient: true,
      });
    },
    async watch(signal) {
      while (!signal.aborted) {
        await look().catch((cause: unknown) => log.warn({ reason: String(cause) }, "the disks could not be looked at"));
        await pause(clock, usualLookMs, signal);
      }
    },
  };
}

/** Null when the directory cannot be seen from here, such as that of a remote engine. */
async function measure(dir: string): Promise<Disk | null> {
  try {
    const { bavail, blocks, bsize } = await statfs(dir);
    return { freeMb: Math.floor((bavail * bsize) / mb), sizeMb: Math.floor((blocks * bsize) / mb) };
  } catch {
    return null;
  }
}
