// @pure

import type { OwnerKind, TaskKind } from "@svc/proto/kinds";
import { hasEnded, isDraining, type ObservationValue, type PlacementValue } from "../cluster/keys.ts";
import { rulesOf } from "../tasks/kinds/index.ts";
import { decideLimits, type Limits, larger, type Share, setAside, takenBy } from "./limits.ts";
import { createRoom, type NodeRoom, type Room } from "./node-room.ts";
import {
  type Decision,
  type Hints,
  type PlacementRequest,
  placeIn,
  type Reservation,
  type SchedulableNode,
} from "./placement.ts";
import { isForRoom } from "./room.ts";

/** A row of `task` that is not yet reaped: what should be. */
export interface DesiredTask extends Limits {
  id: string;
  projectId: string;
  ownerKind: OwnerKind;
  ownerId: string;
  kind: TaskKind;
  channel: string;
  epoch: number;
  desired: "running" | "stopped" | "removed";
  /** How long it may serve what is open once it is to be removed. */
  drainSeconds: number;
  specHash: string;
  /** What its node's disk has to hold: its image, or what it keeps; 0: not known. */
  diskMb: number;
  platform: { os: string; architecture: string } | null;
  /** Labels that its node must have. */
  nodeSelector: Readonly<Record<string, string>>;
  /** See `PlacementRequest`. */
  pinnedTo: string | null;
  /** A build of its user's own Dockerfile. */
  hasDockerfile: boolean;
  /** As Postgres knows it; null until it learned of the placement. */
  nodeId: string | null;
  /** Postgres has a reason why it is not placed, or not with the limits that it is to have. */
  refused: boolean;
  /** How long ago it was asked for. */
  waitedMs: number;
}

/** A placement in etcd, with the node that it is on. */
export interface Placed extends PlacementValue {
  nodeId: string;
  modRevision: bigint;
}

export interface ClusterState {
  nodes: readonly SchedulableNode[];
  /** Nodes that were fenced or removed: nothing on them will ever report again. */
  goneNodes: ReadonlySet<string>;
  tasks: readonly DesiredTask[];
  placed: ReadonlyMap<string, Placed>;
  observed: ReadonlyMap<string, Pick<ObservationValue, "observed" | "limits">>;
  /** What commands take of nodes beside what is placed there; nothing unless given. */
  commands?: readonly Reservation[];
  /** What past rounds know of nodes; nothing unless given. */
  hints?: Hints;
  /** See `PlaceOptions`. */
  seed?: number;
}

export type SchedulerStep =
  /** Write a placement that did not exist. */
  | { do: "place"; nodeId: string; task: DesiredTask }
  /** Move the desired state of an existing placement forward, or shorten the time that it has for what is open. */
  | ({ do: "move"; nodeId: string; placement: Placed } & Pick<DesiredTask, "desired" | "drainSeconds">)
  /** Give a container other limits while it runs. */
  | { do: "resize"; nodeId: string; placement: Placed; limits: Limits; generation: number }
  /** The agent confirmed removal (or never will): forget placement and observation. */
  | { do: "reap"; nodeId: string | null; taskId: string }
  /** Postgres does not know where the placement is (a leader died between the two stores), or that all is well with it. */
  | { do: "mirror"; nodeId: string; taskId: string }
  /** Nothing fits; remember why. */
  | { do: "refuse"; taskId: string; refused: Record<string, number> }
  /** A container keeps other limits than it is to have; remember why, and tell. */
  | { do: "keep"; taskId: string; ownerKind: OwnerKind; ownerId: string; reason: string }
  /** Have a replaced container end now, whatever is open there: what waits needs its room. */
  | { do: "endDrain"; taskId: string };

const order = { running: 0, stopped: 1, removed: 2 } as const;

/**
 * What brings etcd from what is placed to what is desired. Desired states only move forward;
 * room is freed only by what an agent confirmed, never by silence.
 */
export function schedule(state: ClusterState): SchedulerStep[] {
  const steps: SchedulerStep[] = [];
  const waiting: DesiredTask[] = [];
  const running: { task: DesiredTask; placement: Placed }[] = [];
  for (const task of state.tasks) {
    const placement = state.placed.get(task.id);
    if (placement === undefined) {
      if (task.desired === "running") waiting.push(task);
      else steps.push({ do: "reap", nodeId: null, taskId: task.id });
      continue;
    }
    const isToRun = rulesOf(task.kind).isLasting && task.desired === "running" && !hasEndedIn(state, task.id);
    if (isToRun) running.push({ task, placement });
    else if (task.nodeId !== placement.nodeId) steps.push(mirror(task, placement));
    const removed = state.observed.get(task.id)?.observed === "removed" || state.goneNodes.has(placement.nodeId);
    if (task.desired === "removed" && removed) {
      steps.push({ do: "reap", nodeId: placement.nodeId, taskId: task.id });
    } else if (isFurther(task, placement)) {
      const { desired, drainSeconds } = task;
      steps.push({ do: "move", nodeId: placement.nodeId, placement, desired, drainSeconds });
    }
  }
  const room = createRoom(state.nodes, reservationsOf(state));
  const decisions = placeIn(room, waiting.map(requestOf), { hints: state.hints, seed: state.seed });
  for (const task of waiting) steps.push(placeOrRefuse(task, decisions.get(task.id)));
  steps.push(...endDrains(state, waiting, decisions));
  // What does not run at all yet comes first: more room for what runs can wait.
  for (const each of running) steps.push(...limitSteps(state, room, each));
  return steps;
}

const isFurther = (task: DesiredTask, placement: Placed): boolean =>
  order[task.desired] > order[placement.desired] ||
  (task.desired === placement.desired && task.drainSeconds < placement.drainSeconds);

const hasEndedIn = (state: Pick<ClusterState, "observed">, taskId: string): boolean => {
  const observed = state.observed.get(taskId)?.observed;
  return observed !== undefined && hasEnded(observed);
};

const mirror = (task: DesiredTask, placement: Placed): SchedulerStep => ({
  do: "mirror",
  nodeId: placement.nodeId,
  taskId: task.id,
});

/** Other limits for what runs, as far as there is room, each counting what the ones before it took. */
function limitSteps(
  state: ClusterState,
  room: Room,
  { task, placement }: { task: DesiredTask; placement: Placed },
): SchedulerStep[] {
  const seen = state.observed.get(task.id);
  const free = room.of(placement.nodeId);
  const own = takenBy(placement, seen);
  giveBack(free, own, 1);
  const decision = free === null ? null : decideLimits(task, placement, seen, { ...free, pidsLimit: free.pids });
  const isGiven = decision !== null && "give" in decision;
  giveBack(free, isGiven ? larger(setAside(decision.give), own) : own, -1);
  if (isGiven) {
    const { give: limits, generation } = decision;
    return [{ do: "resize", nodeId: placement.nodeId, placement, limits, generation }];
  }
  const isStale = task.nodeId !== placement.nodeId || (task.refused && decision === null);
  return [
    ...(isStale ? [mirror(task, placement)] : []),
    ...(decision === null
      ? []
      : [
          {
            ...{ do: "keep" as const, taskId: task.id, ownerKind: task.ownerKind, ownerId: task.ownerId },
            reason: decision.keep,
          },
        ]),
  ];
}

function giveBack(free: NodeRoom | null, { memoryMb, cpuMillicores, pidsLimit }: Share, sign: 1 | -1): void {
  if (free === null) return;
  free.memoryMb += sign * memoryMb;
  free.cpuMillicores += sign * cpuMillicores;
  free.pids += sign * pidsLimit;
}

function placeOrRefuse(task: DesiredTask, decision: Decision | undefined): SchedulerStep {
  if (decision !== undefined && "nodeId" in decision) return { do: "place", nodeId: decision.nodeId, task };
  return { do: "refuse", taskId: task.id, refused: decision?.refused ?? {} };
}

/** What a project asks for goes before what is open on its replaced containers, whoever asks: a deploy, a start, the keeper. */
function endDrains(
  { tasks }: Pick<ClusterState, "tasks">,
  waiting: readonly DesiredTask[],
  decisions: ReadonlyMap<string, Decision>,
): SchedulerStep[] {
  const isShort = ({ id, refused, waitedMs }: DesiredTask): boolean => {
    const decision = decisions.get(id);
    return refused && decision !== undefined && "refused" in decision && isForRoom(decision.refused, waitedMs);
  };
  const short = new Set(waiting.filter(isShort).map(({ projectId }) => projectId));
  if (short.size === 0) return [];
  return tasks
    .filter((task) => isDraining(task) && short.has(task.projectId))
    .map(({ id }) => ({ do: "endDrain", taskId: id }));
}

const requestOf = (task: DesiredTask): PlacementRequest => ({ ...task, ...setAside(task) });

/** Every placement, and every command, holds its room until its agent said that it ended. */
export function reservationsOf(
  state: Pick<ClusterState, "placed" | "observed" | "goneNodes" | "commands">,
): Reservation[] {
  const isThere = ({ nodeId }: { nodeId: string }) => !state.goneNodes.has(nodeId);
  return [
    ...[...state.placed.values()]
      .filter((placement) => !hasEndedIn(state, placement.placementId) && isThere(placement))
      .map((placement) => ({ ...placement, ...takenBy(placement, state.observed.get(placement.placementId)) })),
    ...(state.commands ?? []).filter(isThere),
  ];
}
