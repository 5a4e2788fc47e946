/** What is set aside for a container on its node. 0: nothing was said. */
export type Reserved = { memoryMb: number; cpuMillicores: number };

/** Shares per thousandth of a processor: the kernel rounds coarsely where they are few. */
const SHARES_PER_MILLI = 10;
/** Within what the kernel takes. */
const SHARES_MIN = 2;
const SHARES_MAX = 262_140;
const SCORE_MIN = 2;
const SCORE_MAX = 999;

/** The weight of a container where processors are short: everybody gets of them by what is set aside for it. */
export const cpuShares = ({ cpuMillicores }: Pick<Reserved, "cpuMillicores">): number =>
  Math.min(Math.max(cpuMillicores * SHARES_PER_MILLI, SHARES_MIN), SHARES_MAX);

/** What was set aside where a container has such a weight; 0 where it was given none. */
export const reservedCpu = (shares: number): number => Math.floor(shares / SHARES_PER_MILLI);

/**
 * Makes the kernel, when the machine is out of memory, end first who holds most beyond what is set aside for it: it adds to
 * this the thousandths of the machine that a process holds. Programs of the machine are at 0, far below.
 */
export const oomScore = ({ memoryMb }: Pick<Reserved, "memoryMb">, machineMb: number): number =>
  Math.min(Math.max(Math.round(1000 - (1000 * memoryMb) / machineMb), SCORE_MIN), SCORE_MAX);

/** Whatever builds hold they go before everybody who serves. */
export const BUILD_OOM_SCORE = 1000;
