// @pure
import type { ObservationValue, PlacementValue } from "../cluster/keys.ts";

/** What is set aside on a node for a container, or what is free there. */
export interface Share {
  memoryMb: number;
  cpuMillicores: number;
  pidsLimit: number;
}

/**
 * What one container may take, and what is set aside for it: its process ids, and of memory and processor time a part.
 * Nobody sets room aside on a disk: a node has a floor of free space instead.
 */
export interface Limits extends Share {
  storageMb: number;
  reservedMemoryMb: number;
  reservedCpuMillicores: number;
}

/** Limits as they are written down: of before anything was set aside apart from them, that is all of them. */
export type WrittenLimits = Share & Pick<PlacementValue, "reservedMemoryMb" | "reservedCpuMillicores">;

export type LimitsDecision =
  /** Goes to the agent as the next generation. */
  | { give: Limits; generation: number }
  /** It keeps what it has: why. Decided again in every round. */
  | { keep: string };

const noLiveLimits = "the agent of its node is of a version that cannot change them while it runs";
const reasons: readonly { of: keyof Share; reason: string }[] = [
  { of: "memoryMb", reason: "its node has too little memory" },
  { of: "cpuMillicores", reason: "its node has too few processor shares" },
  { of: "pidsLimit", reason: "its node has too few process ids" },
];

const isSameShare = (a: Share, b: Share): boolean => reasons.every(({ of }) => a[of] === b[of]);

/** The larger of both, each for itself. */
export const larger = (a: Share, b: Share): Share => ({
  memoryMb: Math.max(a.memoryMb, b.memoryMb),
  cpuMillicores: Math.max(a.cpuMillicores, b.cpuMillicores),
  pidsLimit: Math.max(a.pidsLimit, b.pidsLimit),
});

type Seen = Pick<ObservationValue, "observed" | "limits">;

/** What is set aside for a container with these limits. */
export const setAside = (limits: WrittenLimits): Share => ({
  memoryMb: limits.reservedMemoryMb ?? limits.memoryMb,
  cpuMillicores: limits.reservedCpuMillicores ?? limits.cpuMillicores,
  pidsLimit: limits.pidsLimit,
});

/** What a placement takes of its node: until its agent has said that a container has less, it has what it had. */
export function takenBy(placement: WrittenLimits, seen: Pick<Seen, "limits"> | undefined): Share {
  const has = seen?.limits;
  if (has === undefined) return setAside(placement);
  // An agent of before that was apart from limits says nothing of it.
  const { reservedMemoryMb = placement.reservedMemoryMb, reservedCpuMillicores = placement.reservedCpuMillicores } =
    has;
  return larger(setAside(placement), setAside({ ...has, reservedMemoryMb, reservedCpuMillicores }));
}

const beforeContainer: ReadonlySet<string> = new Set(["assigned", "accepted", "pulling"]);

/**
 * Whether a container that runs, or is about to, gets other limits: all of them at once, or none. `free` is what its
 * node has besides what it takes itself. Null when there is nothing to do, or not before there is a container.
 */
export function decideLimits(
  wanted: Limits,
  placement: WrittenLimits & Pick<PlacementValue, "storageMb" | "limitsGeneration">,
  seen: Seen | undefined,
  free: Share,
): LimitsDecision | null {
  const inForce = seen?.limits;
  const generation = Math.max(placement.limitsGeneration, inForce?.generation ?? 0);
  // After a restore of the store the agent may know a later one, and refuse what is asked of it.
  const isHeard = generation === placement.limitsGeneration || (inForce !== undefined && isSameShare(inForce, wanted));
  const isSame =
    isSameShare(wanted, placement) &&
    isSameShare(setAside(wanted), setAside(placement)) &&
    wanted.storageMb === placement.storageMb;
  if (isSame && isHeard) {
    const isAnswer = inForce?.generation === placement.limitsGeneration;
    return isAnswer && inForce.problem !== null ? { keep: inForce.problem } : null;
  }
  if (seen === undefined || beforeContainer.has(seen.observed)) return null;
  if (inForce === undefined) return { keep: noLiveLimits };
  const taken = takenBy(placement, seen);
  const more = setAside(wanted);
  const short = reasons.find(({ of }) => more[of] > taken[of] && more[of] > free[of]);
  return short === undefined ? { give: limitsOf(wanted), generation: generation + 1 } : { keep: short.reason };
}

const limitsOf = ({
  memoryMb,
  cpuMillicores,
  pidsLimit,
  storageMb,
  reservedMemoryMb,
  reservedCpuMillicores,
}: Limits): Limits => ({ memoryMb, cpuMillicores, pidsLimit, storageMb, reservedMemoryMb, reservedCpuMillicores });
