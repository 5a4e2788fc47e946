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

/** How long and how often what ends again and again is started again. */
export interface Pace {
  /** The longest wait for a start. */
  delayMsMax: number;
  /** So many ends in a row, and it is started no more. */
  crashesMax: number;
}

const firstDelayMs = 1_000;
const lastDelayMs = 5 * 60 * 1000;
/** Whoever deployed it has to do something about it, and other replicas may answer. */
const pace: Pace = { delayMsMax: lastDelayMs, crashesMax: 10 };
/** Having run this long, a process is not in a loop. */
export const steadyMs = 60_000;

/**
 * What one more crash leads to: a restart at once, then after 1 s, doubling as far as the pace says (5 min unless it is given),
 * or null after as many in a row as it allows (ten).
 */
export function nextCrash(
  crashesBefore: number,
  ranForMs: number,
  countedExit: string,
  { delayMsMax, crashesMax }: Pace = pace,
): Crash | null {
  const crashes = ranForMs >= steadyMs ? 1 : crashesBefore + 1;
  if (crashes > crashesMax) return null;
  return { crashes, countedExit, delayMs: crashes === 1 ? 0 : Math.min(delayMsMax, retryDelayMs(crashes - 1)) };
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
