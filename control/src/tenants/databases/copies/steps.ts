// @pure
import type { DatabaseStatus } from "@svc/proto";
import type { CopyPlace, CopyTier } from "../../../fleet/scheduler/copy-place.ts";
import type { Copy } from "../../../stores/db/tables.ts";

/** What keeps a copy on a node: a task that is not over. */
export interface KeeperFacts {
  taskId: string;
  /** False: it was asked to go. */
  wanted: boolean;
  /** It ended for good, and a new one is needed. */
  failed: boolean;
  /** It has the room that the branch's plan gives by now. */
  isCurrent: boolean;
  /** For how long it has been asked for. */
  ageMs: number;
}

/** A copy of the branch that has not ended. */
export interface CopyFacts {
  id: string;
  purpose: Copy["purpose"];
  /** Of the volume that it follows. */
  generation: number;
  /** Null: nobody has said where yet. */
  nodeId: string | null;
  /** That machine was declared lost, or removed. */
  nodeGone: boolean;
  /** That machine is to be empty. */
  nodeLeaving: boolean;
  /** See `CopyTier`; null: it is nowhere yet. */
  tier: CopyTier | null;
  state: Exclude<Copy["state"], "ended">;
  /** It has everything until some minutes ago: it could take the place of the branch's own data. */
  isFresh: boolean;
  ageMs: number;
  /** For how long it has lacked what was written, although its server was there: since it was begun, or covered anything last. */
  lackingMs: number;
  /** More was written than the plan gives room for: another copy would lack it as well. */
  isTooLarge: boolean;
  /** The server knows the password that a keeper of this copy logs in with. */
  isLetIn: boolean;
  keepers: readonly KeeperFacts[];
}

/** Everything that decides what is next for the copies of a branch. */
export interface CopiesFacts {
  /** This installation keeps copies of branches. */
  isWanted: boolean;
  status: DatabaseStatus;
  generation: number;
  /** The project is off the air, and nobody brings it back: there is no server to follow. */
  suspended: boolean;
  /** The project is being deleted, and everything with it. */
  projectGone: boolean;
  /** Its server takes sessions. */
  isServing: boolean;
  /** It is about to get another volume, or another place. */
  isChanging: boolean;
  /** Those who keep copies have a password. */
  hasPassword: boolean;
  copies: readonly CopyFacts[];
  /** Where one more copy would be kept; null: nowhere. */
  best: CopyPlace | null;
  /** The server may keep its log for a copy that has ended, and whose keepers are over. */
  mayHoldLog: boolean;
}

export type CopiesStep =
  | { do: "begin"; purpose: "keeper" | "successor"; nodeId: string }
  | { do: "place"; copyId: string; nodeId: string }
  /** It is the keeper's copy from now on, and the one before, if there is one, ends. */
  | { do: "promote"; copyId: string; insteadOf: string | null }
  /** If it is still of that purpose. */
  | { do: "end"; copyId: string; purpose: Copy["purpose"]; why: string }
  | { do: "makePassword" }
  | { do: "letIn" }
  | { do: "startKeeper"; copyId: string }
  | { do: "removeKeepers"; copyId: string; taskIds: readonly string[] }
  | { do: "releaseLog" }
  | { do: "wait"; for: string }
  | { do: "rest" };

/** For how long a copy that has ended can be restored from. */
export const retentionHours = 168;
/** A successor that does not follow by then gives way: another try may find another node. */
export const successorMs = 24 * 3_600_000;
/** A copy that lacks everything for so long is not mended by its keeper any more: another one is begun elsewhere. */
export const lackingMaxMs = 6 * 3_600_000;
/** How long a keeper that failed is left alone before another one is tried. */
export const restartMs = 60_000;

/**
 * The next thing to do for the copies of a branch. Each step may be repeated, and rests on facts that its effect looks at again
 * under the branch's lock: so two workers, or one that was killed anywhere, do no harm. What one can still be restored from is
 * never given up before something else follows, and a copy that has ended stays for as long as somebody may need it.
 */
export function nextCopiesStep(facts: CopiesFacts): CopiesStep {
  const { copies, suspended } = facts;
  // Whoever drops or deletes the branch ends them, for as long as it can come back.
  if (facts.status === "dropping" || facts.projectGone) return { do: "rest" };
  const step = ended(facts) ?? (suspended ? stopped(copies) : (chosen(facts) ?? kept(facts)));
  if (step !== null) return step;
  if (facts.mayHoldLog && facts.isServing) return { do: "releaseLog" };
  return { do: "rest" };
}

/** Copies that cannot go on, or that nobody wants. */
function ended({ copies, generation, isWanted }: CopiesFacts): CopiesStep | null {
  for (const copy of copies) {
    const { nodeGone, purpose } = copy;
    const why = nodeGone
      ? "its node is gone"
      : copy.generation !== generation
        ? "the branch has another volume"
        : !isWanted && purpose !== "move"
          ? "no copies are kept"
          : null;
    if (why !== null) return end(copy, why);
  }
  return null;
}

const end = ({ id: copyId, purpose }: CopyFacts, why: string): CopiesStep => ({ do: "end", copyId, purpose, why });

/** Of a suspended project: nothing changes, and there is nobody to ask. */
const stopped = (copies: readonly CopyFacts[]): CopiesStep | null =>
  copies.flatMap((copy) => removal(copy, ({ wanted }) => wanted) ?? [])[0] ?? null;

function removal({ id, keepers }: CopyFacts, which: (keeper: KeeperFacts) => boolean): CopiesStep | null {
  const taskIds = keepers.filter(which).map(({ taskId }) => taskId);
  return taskIds.length === 0 ? null : { do: "removeKeepers", copyId: id, taskIds };
}

/** Which copies there should be, and where. */
function chosen(facts: CopiesFacts): CopiesStep | null {
  const { copies, best } = facts;
  const keeper = copies.find(({ purpose }) => purpose === "keeper");
  const successor = copies.find(({ purpose }) => purpose === "successor");
  if (successor !== undefined) return succeeded(facts, successor, keeper);
  const mayBegin = facts.isWanted && facts.status === "ready" && !facts.isChanging && best !== null;
  if (!mayBegin) return null;
  if (keeper === undefined) return { do: "begin", purpose: "keeper", nodeId: best.nodeId };
  const isDue = isBetter(best.tier, keeper) || (facts.isServing && isOverdue(keeper));
  return isDue ? { do: "begin", purpose: "successor", nodeId: best.nodeId } : null;
}

function succeeded(
  { isChanging }: CopiesFacts,
  successor: CopyFacts,
  keeper: CopyFacts | undefined,
): CopiesStep | null {
  const { id: copyId, tier, isFresh, ageMs } = successor;
  if (keeper === undefined) return { do: "promote", copyId, insteadOf: null };
  // A move may come out of the copy that would end.
  if (isFresh && isChanging) return null;
  if (isFresh) return { do: "promote", copyId, insteadOf: keeper.id };
  const why =
    ageMs >= successorMs
      ? "it does not follow"
      : tier !== null && keeper.isFresh && !isBetter(tier, keeper)
        ? "the one before follows, and its node is not better any more"
        : null;
  return why === null ? null : end(successor, why);
}

/** Whether less is lost together at a place of that tier; from a node that is to be empty, any that is not the data's own is better. */
const isBetter = (tier: CopyTier, { tier: now, nodeLeaving }: CopyFacts): boolean =>
  now !== null && (tier > now || (nodeLeaving && tier > 1));

const isOverdue = ({ tier, isFresh, isTooLarge, lackingMs }: CopyFacts): boolean =>
  tier !== null && !isFresh && !isTooLarge && lackingMs >= lackingMaxMs;

/** What every copy needs to be kept. */
function kept(facts: CopiesFacts): CopiesStep | null {
  let waiting: CopiesStep | null = null;
  for (const copy of facts.copies) {
    const step = keptOne(facts, copy);
    if (step?.do !== "wait" && step !== null) return step;
    waiting ??= step;
  }
  return waiting;
}

function keptOne({ best, hasPassword, isServing, isChanging }: CopiesFacts, copy: CopyFacts): CopiesStep | null {
  const { id: copyId, nodeId, nodeLeaving, purpose, isLetIn, keepers } = copy;
  if (nodeId === null) {
    return best === null ? { do: "wait", for: "a node that takes it" } : { do: "place", copyId, nodeId: best.nodeId };
  }
  const spent = removal(copy, ({ wanted, failed, ageMs }) => wanted && failed && ageMs >= restartMs);
  if (spent !== null) return spent;
  // The next one goes on from what is there, and has to be let in for that. A change that comes out of this copy waits for no keeper.
  const mayRestart = isServing && !isChanging && !nodeLeaving;
  const outdated = mayRestart ? removal(copy, ({ wanted, isCurrent }) => wanted && !isCurrent) : null;
  if (outdated !== null) return outdated;
  if (keepers.some(({ wanted }) => wanted)) return null;
  if (keepers.length > 0) return { do: "wait", for: "the keeper before to end" };
  // A drain has taken it away; it stays on the disk, and goes on if the node does.
  if (nodeLeaving && purpose !== "move") return null;
  if (!hasPassword) return { do: "makePassword" };
  if (!isServing) return { do: "wait", for: "the server to answer" };
  return isLetIn ? { do: "startKeeper", copyId } : { do: "letIn" };
}
