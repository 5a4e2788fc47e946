/** What is set aside for a container on its node. 0: nothing was said. */
export interface Reserved {
  memoryMb: number;
  cpuMillicores: number;
}

/** Shares per thousandth of a processor: the kernel rounds coarsely where they are few. */
const sharesPerMilli = 10;
/** Within what the kernel takes. */
const sharesMin = 2;
const sharesMax = 262_140;
const scoreMin = 2;
const scoreMax = 999;

/** The weight of a container where processors are short: everybody gets of them by what is set aside for it. */
export const cpuShares = ({ cpuMillicores }: Pick<Reserved, "cpuMillicores">): number =>
  Math.min(Math.max(cpuMillicores * sharesPerMilli, sharesMin), sharesMax);

/** What was set aside where a container has such a weight; 0 where it was given none. */
export const reservedCpu = (shares: number): number => Math.floor(shares / sharesPerMilli);

/**
 * Makes the kernel, when the machine is out of memory, end first who holds most beyond what is set aside for it: it adds to
 * this the thousandths of the machine that a process holds. Programs of the machine are at 0, far below.
 */
export const oomScore = ({ memoryMb }: Pick<Reserved, "memoryMb">, machineMb: number): number =>
  Math.min(Math.max(Math.round(1000 - (1000 * memoryMb) / machineMb), scoreMin), scoreMax);

/** A database server goes after everybody who can simply be started again: half as likely as one of them of its size. */
export const databaseOomScore = (reserved: Pick<Reserved, "memoryMb">, machineMb: number): number =>
  Math.max(Math.round(oomScore(reserved, machineMb) / 2), scoreMin);

/** Whatever builds hold they go before everybody who serves. */
export const buildOomScore = 1000;
