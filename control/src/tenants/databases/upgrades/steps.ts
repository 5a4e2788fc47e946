// @pure

/** The server of a branch, as far as upgrades go by it. */
export interface UpgradableServer {
  databaseId: string;
  /** It runs in the image that the installation has by now. */
  isCurrent: boolean;
  /** It takes sessions, and its branch is ready. */
  isServing: boolean;
  /** Its branch is under a change, of whatever kind. */
  isChanging: boolean;
  /** It was to get this image, and did not come up in time. */
  hasFailed: boolean;
}

export interface UpgradeRound {
  /** Which get the installation's image now. */
  begin: readonly string[];
  /** Whose server did not come up in it: nothing goes on until it does, or the installation has another image. */
  haltedBy: string | null;
}

/** The part of all servers of an engine that are replaced at once, after a first one. */
export const waveShare = 0.05;

/**
 * Which servers of one engine are replaced next: one alone first, then waves, each once all of the one before serve. What is no
 * longer there for itself, or is being changed, has its turn later; a new server has the image anyway.
 */
export function nextUpgrades(servers: readonly UpgradableServer[]): UpgradeRound {
  const halting = servers.find(({ hasFailed, isServing }) => hasFailed && !isServing);
  if (halting !== undefined) return { begin: [], haltedBy: halting.databaseId };
  const isUnderWay = servers.some(({ isChanging, isCurrent }) => isChanging && !isCurrent);
  const due = servers.filter(({ isCurrent, isServing, isChanging }) => !isCurrent && isServing && !isChanging);
  if (isUnderWay || due.length === 0) return { begin: [], haltedBy: null };
  const isFirst = !servers.some(({ isCurrent, isServing }) => isCurrent && isServing);
  const wave = isFirst ? 1 : Math.max(1, Math.ceil(servers.length * waveShare));
  return { begin: due.slice(0, wave).map(({ databaseId }) => databaseId), haltedBy: null };
}
