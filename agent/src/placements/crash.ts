// @pure
/** One counted end of a process that should have gone on. */
export interface Crash {
  /** How many in a row, this one included. */
  crashes: number;
  /** Names the end that was counted: the engine's time stamp of it, or of the start when it has none. */
  countedExit: string;
  /** How long after that end it is started again. */
  delayMs: number;
}

const crashesMax = 10;
const firstDelayMs = 1_000;
const lastDelayMs = 5 * 60 * 1000;
/** Having run this long, a process is not in a loop. */
export const steadyMs = 60_000;

/** What one more crash leads to: a restart at once, then after 1 s, doubling to 5 min, or null after ten in a row. */
export function nextCrash(crashesBefore: number, ranForMs: number, countedExit: string): Crash | null {
  const crashes = ranForMs >= steadyMs ? 1 : crashesBefore + 1;
  if (crashes > crashesMax) return null;
  return { crashes, countedExit, delayMs: crashes === 1 ? 0 : retryDelayMs(crashes - 1) };
}

const restlessSteps = 8;
const restlessPauseMaxMs = 30_000;

/**
 * The wait before a step that was done so often with no rest in between; 0 for none. No placement needs so many of
 * one kind: something says yes and does nothing.
 */
export const restlessPauseMs = (times: number): number =>
  times < restlessSteps ? 0 : Math.min(restlessPauseMaxMs, retryDelayMs(times - restlessSteps + 1));

/** The wait after the n-th failure in a row, counted from 1. */
export const retryDelayMs = (failures: number): number =>
  Math.min(lastDelayMs, firstDelayMs * 2 ** Math.min(failures - 1, 20));
