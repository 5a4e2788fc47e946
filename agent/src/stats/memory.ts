import { readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import type { Log } from "../log.ts";

/** Watches how much memory of the machine is really left, whatever is set aside. */
export type MemoryWatch = {
  /** As it was found last. */
  isShort(): boolean;
  /** Looks from time to time, until the signal aborts. */
  watch(signal: AbortSignal): Promise<void>;
};

/** What could be used without taking it from a program, and all there is. */
export type MachineMemory = { availableMb: number; totalMb: number };

const LOOK_EVERY_MS = 5_000;
/** The kernel, the container engine and this agent: this share of the machine, within these bounds. */
const RESERVE_SHARE = 1 / 8;
const RESERVE_MIN_MB = 256;
const RESERVE_MAX_MB = 2048;
/** So much above the floor there is room again, so that the next container does not go below it at once. */
const RELIEF = 1.5;

/** What of a machine is not for containers. */
export const systemReserveMb = (totalMb: number): number =>
  Math.min(RESERVE_MAX_MB, Math.max(RESERVE_MIN_MB, Math.floor(totalMb * RESERVE_SHARE)));

/** What has to be left for new work to be taken, unless the operator set it. */
export const memoryFloorMb = (totalMb: number, set: number | null): number => set ?? systemReserveMb(totalMb) / 2;

/** Whether too little is left now, given what was found before. */
export function isMemoryShort(before: boolean, { availableMb, totalMb }: MachineMemory, set: number | null): boolean {
  return availableMb < memoryFloorMb(totalMb, set) * (before ? RELIEF : 1);
}

/** Reads what the kernel says; null when it does not say it. */
export function parseMemory(meminfo: string): MachineMemory | null {
  const mb = (name: string): number =>
    Math.floor(Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(meminfo)?.[1] ?? Number.NaN) / 1024);
  const [totalMb, availableMb] = [mb("MemTotal"), mb("MemAvailable")];
  return Number.isNaN(totalMb + availableMb) ? null : { totalMb, availableMb };
}

/** @param set the floor in MB; null for one that fits the machine */
export function createMemoryWatch({ set, log }: { set: number | null; log: Log }): MemoryWatch {
  let isShort = false;
  const look = async (): Promise<void> => {
    const memory = parseMemory(await readFile("/proc/meminfo", "utf8"));
    if (memory === null) return;
    const found = isMemoryShort(isShort, memory, set);
    if (found !== isShort)
      log.warn({ short: found, ...memory }, found ? "memory is almost used up" : "there is memory again");
    isShort = found;
  };
  return {
    isShort: () => isShort,
    async watch(signal) {
      while (!signal.aborted) {
        await look().catch((cause: unknown) => log.warn({ reason: String(cause) }, "memory could not be looked at"));
        await delay(LOOK_EVERY_MS, undefined, { signal }).catch(() => {});
      }
    },
  };
}
