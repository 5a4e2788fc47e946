// @pure
/** An agent process that had the session of its node until another process took it. */
export interface Takeover {
  instanceId: string;
  bootId: string;
  /** ISO 8601. */
  at: string;
}

interface Claimant {
  instanceId: string;
  bootId: string;
}

const windowMs = 120_000;
/** How often one process may come back for a session that another has taken from it. */
const returnsMax = 1;
const keptMax = 8;

/**
 * The takeovers of a node's session once `next` takes it from `holder` (null: nobody has it). An agent that was started
 * anew takes over once and has another instance each time; only two machines with one identity take it from each other.
 */
export function takeoversAfter(
  holder: (Claimant & { takeovers: readonly Takeover[]; detached: boolean }) | null,
  next: Claimant,
  now: Date,
): Takeover[] {
  if (holder === null) return [];
  const recent = holder.takeovers.filter(({ at }) => now.getTime() - new Date(at).getTime() <= windowMs);
  // Nobody is pushed out of a session whose stream has ended; what happened before still counts.
  if (holder.detached || holder.instanceId === next.instanceId) return recent.slice(-keptMax);
  const { instanceId, bootId } = holder;
  return [...recent, { instanceId, bootId, at: now.toISOString() }].slice(-keptMax);
}

/**
 * When the boot that `next` is of took the session from another boot, ISO 8601; null: from none. A machine that boots anew
 * has mostly been silent for longer than its lease; what takes the session sooner may be another machine.
 */
export const bootTookAt = (
  holder: (Claimant & { bootTookAt: string | null }) | null,
  next: Claimant,
  now: Date,
): string | null => {
  if (holder === null) return null;
  return holder.bootId === next.bootId ? holder.bootTookAt : now.toISOString();
};

/** How much longer the other boot, if it still runs, may need to take the session back. A lease is more than its longest pause. */
export const contestedForMs = (tookAt: string | null, leaseTtlMs: number, now: Date): number =>
  tookAt === null ? 0 : Math.min(leaseTtlMs, Math.max(0, new Date(tookAt).getTime() + leaseTtlMs - now.getTime()));

/** Whether two live processes use the identity: one of them keeps coming back. */
export const isCloned = (takeovers: readonly Takeover[], { instanceId }: Claimant): boolean =>
  takeovers.filter((each) => each.instanceId === instanceId).length > returnsMax;
