import { readFile } from "node:fs/promises";
import type { Clock } from "@svc/runtime/clock";
import { pause } from "@svc/runtime/sleep";
import type { Log } from "../log.ts";

/** Watches how much memory of the machine is really left, whatever is set aside. */
export interface MemoryWatch {
  /** As it was found last. */
  isShort(): boolean;
  /** Looks from time to time, until the signal aborts. */
  watch(signal: AbortSignal): Promise<void>;
}

/** What could be used without taking it from a program, and all there is. */
export interface MachineMemory {
  availableMb: number;
  totalMb: number;
}

const usualLookMs = 5_000;
/** The kernel, the container engine and this agent: this share of the machine, within these bounds. */
const reserveShare = 1 / 8;
const reserveMinMb = 256;
const reserveMaxMb = 2048;
/** So much above the floor there is room again, so that the next container does not go below it at once. */
const relief = 1.5;

/** What of a machine is not for containers. */
export const systemReserveMb = (totalMb: number): number =>
  Math.min(reserveMaxMb, Math.max(reserveMinMb, Math.floor(totalMb * reserveShare)));

/** What has to be left for new work to be taken, unless the operator set it. */
export const memoryFloorMb = (totalMb: number, set: number | null): number => set ?? systemReserveMb(totalMb) / 2;

/** Whether too little is left now, given what was found before. */
export function isMemoryShort(before: boolean, { availableMb, totalMb }: MachineMemory, set: number | null): boolean {
  return availableMb < memoryFloorMb(totalMb, set) * (before ? relief : 1);
}

/** Reads what the kernel says; null when it does not say it. */
export function parseMemory(meminfo: string): MachineMemory | null {
  const mb = (name: string): number =>
    Math.floor(Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(meminfo)?.[1] ?? Number.NaN) / 1024);
  const [totalMb, availableMb] = [mb("MemTotal"), mb("MemAvailable")];
  return Number.isNaN(totalMb + availableMb) ? null : { totalMb, availableMb };
}

/** @param set the floor in MB; null for one that fits the machine */
export function createMemoryWatch({ clock, set, log }: { clock: Clock; set: number | null; log: Log }): MemoryWatch {
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
        await pause(clock, usualLookMs, signal);
      }
    },
  };
}
