// @pure

/** The server of a branch, as far as upgrades go by it. */
export interface UpgradableServer {
  databaseId: string;
  /** It runs in the image that the installation has by now. */
  isCurrent: boolean;
  /** It is to serve: its branch is ready, and its project on the air. Where nothing serves then, something is wrong. */
  isMeant: boolean;
  /** It takes sessions, and its branch is ready. */
  isServing: boolean;
  /** Its machine would take another server in its place: what ends where none is taken does not come up again. */
  isReplaceable: boolean;
  /** Its branch is under a change, of whatever kind, or a backup of it is being written. */
  isChanging: boolean;
  /** It is getting this image. */
  isUpgrading: boolean;
  /** What came of its last upgrade to this image; null: there was none. */
  upgraded: "done" | "failed" | null;
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
  const halting = servers.find(
    // One that nobody wants to serve, or whose machine is lost, says nothing of the image.
    ({ upgraded, isMeant, isServing, isUpgrading }) => upgraded === "failed" && isMeant && !isServing && !isUpgrading,
  );
  if (halting !== undefined) return { begin: [], haltedBy: halting.databaseId };
  const due = servers.filter(
    ({ isCurrent, isServing, isReplaceable, isChanging }) => !isCurrent && isServing && isReplaceable && !isChanging,
  );
  if (due.length === 0 || servers.some(({ isUpgrading }) => isUpgrading)) return { begin: [], haltedBy: null };
  // What began with the image says nothing of data that another one wrote.
  const isFirst = !servers.some(({ upgraded, isServing }) => upgraded === "done" && isServing);
  const wave = isFirst ? 1 : Math.max(1, Math.ceil(servers.length * waveShare));
  return { begin: due.slice(0, wave).map(({ databaseId }) => databaseId), haltedBy: null };
}
