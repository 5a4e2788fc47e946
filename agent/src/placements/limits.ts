// @pure
import type { Resources } from "@svc/proto/node";
import type { Container, Limits } from "../engine/engine.ts";
import type { Reserved } from "../engine/pressure.ts";
import type { Memory } from "../journal/records.ts";

type LimitsMemory = Pick<Memory, "limitsTried" | "limitsMisses" | "limitsRetryAtMs" | "limitsPause">;

/** What is known of the limits of a placement that has a container. */
export interface LimitsView {
  /** What it is to have; undefined when control did not say. */
  wanted: Resources | undefined;
  /** What the container has. */
  inForce: Limits;
  /** What the engine was told to set aside for it. */
  reserved: Reserved;
  /** What control was told last; undefined before the first time. */
  told: Resources | undefined;
  toldProblem: string;
  /** Between which two runs the container is; null while it runs. */
  pause: string | null;
  memory: LimitsMemory;
  nowMs: number;
}

/** How often the engine is asked for limits that it does not give. From then on they wait for the container's next start. */
const missesMax = 20;
const firstRetryMs = 30_000;
const longestRetryMs = 10 * 60_000;

/** From one refusal to the next try; more memory than is to be left may be a matter of the moment. */
export const limitsRetryMs = (misses: number): number => Math.min(firstRetryMs * 2 ** (misses - 1), longestRetryMs);

/** Names limits, so that misses of others are not counted for them. */
export const limitsKey = ({ memoryMb, cpuMillicores, pidsLimit }: Limits): string =>
  `${memoryMb}/${cpuMillicores}/${pidsLimit}`;

/** Names the time between two runs that a container is in, or before its first; null while it runs. */
export const pauseOf = ({ id, state, finishedAt }: Pick<Container, "id" | "state" | "finishedAt">): string | null =>
  state === "running" ? null : `${id}@${finishedAt ?? ""}`;

const words: readonly { of: keyof Limits; word: string }[] = [
  { of: "memoryMb", word: "memory" },
  { of: "cpuMillicores", word: "processor time" },
  { of: "pidsLimit", word: "process ids" },
];

/** What of `wanted` the container does not have, in words: 0 was never said. */
export const lackOf = (wanted: Limits, inForce: Limits): string[] =>
  words.filter(({ of }) => wanted[of] !== 0 && wanted[of] !== inForce[of]).map(({ word }) => word);

export const differs = (wanted: Limits, inForce: Limits): boolean => lackOf(wanted, inForce).length > 0;

/** Whether the container is to get other limits now, or control is to hear which it has. */
export function isLimitsDue({
  wanted,
  inForce,
  reserved,
  told,
  toldProblem,
  pause,
  memory,
  nowMs,
}: LimitsView): boolean {
  if (wanted === undefined) return false;
  if (told?.generation !== wanted.generation || limitsKey(told) !== limitsKey(inForce)) return true;
  if (!differs(wanted, inForce)) {
    if (toldProblem !== "") return true;
    // An agent of before has told that it gave these limits, and knew of nothing that is set aside.
    if (!reservesOther(reservedOf(wanted), reserved)) return false;
  }
  if (memory.limitsTried !== limitsKey(wanted)) return true;
  // What does not run takes limits that are too small for what ran. What it does not take either must not keep it down.
  if (pause !== null && memory.limitsPause !== pause) return true;
  return memory.limitsMisses < missesMax && memory.limitsRetryAtMs <= nowMs;
}

/** What to remember after the engine was asked once more, and the container has other limits still. */
export function afterMiss(
  memory: LimitsMemory,
  { wanted, pause, nowMs }: { wanted: Limits; pause: string | null; nowMs: number },
): LimitsMemory {
  const limitsTried = limitsKey(wanted);
  const limitsMisses = (memory.limitsTried === limitsTried ? memory.limitsMisses : 0) + 1;
  return { limitsTried, limitsMisses, limitsRetryAtMs: nowMs + limitsRetryMs(limitsMisses), limitsPause: pause ?? "" };
}

/** What is set aside with these limits; an assignment of before that was apart from them says nothing. */
export const reservedOf = (
  resources: Pick<Resources, "reservedMemoryMb" | "reservedCpuMillicores"> | undefined,
): Reserved => ({
  memoryMb: resources?.reservedMemoryMb ?? 0,
  cpuMillicores: resources?.reservedCpuMillicores ?? 0,
});

/** Whether something else is set aside for a container than the engine was told. */
export const reservesOther = (wanted: Reserved, told: Reserved): boolean =>
  (wanted.memoryMb !== 0 && wanted.memoryMb !== told.memoryMb) ||
  (wanted.cpuMillicores !== 0 && wanted.cpuMillicores !== told.cpuMillicores);

/** Limits with what was said of them in `wanted`: 0 is an assignment of before there were limits. */
export const withSaid = (limits: Limits, { memoryMb, cpuMillicores, pidsLimit }: Limits): Limits => ({
  memoryMb: memoryMb || limits.memoryMb,
  cpuMillicores: cpuMillicores || limits.cpuMillicores,
  pidsLimit: pidsLimit || limits.pidsLimit,
});
