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

/** Whether two live processes use the identity: one of them keeps coming back. */
export const isCloned = (takeovers: readonly Takeover[], { instanceId }: Claimant): boolean =>
  takeovers.filter((each) => each.instanceId === instanceId).length > returnsMax;
