import { hasEnded, type ObservationValue, type PlacementValue } from "../cluster/keys.ts";
import { type Decision, type PlacementRequest, place, type Reservation, type SchedulableNode } from "./placement.ts";

/** A row of `task` that is not yet reaped: what should be. */
export interface DesiredTask {
  id: string;
  projectId: string;
  deploymentId: string;
  kind: "build" | "serve";
  channel: string;
  epoch: number;
  desired: "running" | "stopped" | "removed";
  specHash: string;
  memoryMb: number;
  cpuMillicores: number;
  pidsLimit: number;
  platform: { os: string; architecture: string } | null;
  /** As Postgres knows it; null until it learned of the placement. */
  nodeId: string | null;
}

/** A placement in etcd, with the node that it is on. */
export interface Placed extends PlacementValue {
  nodeId: string;
}

export interface ClusterState {
  nodes: readonly SchedulableNode[];
  /** Nodes that were fenced or removed: nothing on them will ever report again. */
  goneNodes: ReadonlySet<string>;
  tasks: readonly DesiredTask[];
  placed: ReadonlyMap<string, Placed>;
  observed: ReadonlyMap<string, Pick<ObservationValue, "observed">>;
}

export type SchedulerStep =
  /** Write a placement that did not exist. */
  | { do: "place"; nodeId: string; task: DesiredTask }
  /** Move the desired state of an existing placement forward. */
  | { do: "move"; nodeId: string; placement: Placed; desired: DesiredTask["desired"] }
  /** The agent confirmed removal (or never will): forget placement and observation. */
  | { do: "reap"; nodeId: string | null; taskId: string }
  /** Postgres does not know where the placement is: a leader died between the two stores. */
  | { do: "mirror"; nodeId: string; taskId: string }
  /** Nothing fits; remember why. */
  | { do: "refuse"; taskId: string; refused: Record<string, number> };

const order = { running: 0, stopped: 1, removed: 2 } as const;

/**
 * What brings etcd from what is placed to what is desired. Desired states only move forward;
 * room is freed only by what an agent confirmed, never by silence.
 */
export function schedule(state: ClusterState): SchedulerStep[] {
  const steps: SchedulerStep[] = [];
  const waiting: DesiredTask[] = [];
  for (const task of state.tasks) {
    const placement = state.placed.get(task.id);
    if (placement === undefined) {
      if (task.desired === "running") waiting.push(task);
      else steps.push({ do: "reap", nodeId: null, taskId: task.id });
      continue;
    }
    if (task.nodeId !== placement.nodeId) steps.push({ do: "mirror", nodeId: placement.nodeId, taskId: task.id });
    const removed = state.observed.get(task.id)?.observed === "removed" || state.goneNodes.has(placement.nodeId);
    if (task.desired === "removed" && removed) {
      steps.push({ do: "reap", nodeId: placement.nodeId, taskId: task.id });
    } else if (order[task.desired] > order[placement.desired]) {
      steps.push({ do: "move", nodeId: placement.nodeId, placement, desired: task.desired });
    }
  }
  const decisions = place(state.nodes, reservationsOf(state), waiting.map(requestOf));
  for (const task of waiting) steps.push(placeOrRefuse(task, decisions.get(task.id)));
  return steps;
}

function placeOrRefuse(task: DesiredTask, decision: Decision | undefined): SchedulerStep {
  if (decision !== undefined && "nodeId" in decision) return { do: "place", nodeId: decision.nodeId, task };
  return { do: "refuse", taskId: task.id, refused: decision?.refused ?? {} };
}

const requestOf = ({
  id,
  projectId,
  deploymentId,
  kind,
  memoryMb,
  cpuMillicores,
  pidsLimit,
  platform,
}: DesiredTask): PlacementRequest => ({
  id,
  projectId,
  deploymentId,
  kind,
  memoryMb,
  cpuMillicores,
  pidsLimit,
  platform,
});

/** Every placement holds its room until its agent said that it ended. */
export function reservationsOf(state: Pick<ClusterState, "placed" | "observed" | "goneNodes">): Reservation[] {
  return [...state.placed.values()].filter(({ placementId, nodeId }) => {
    const observed = state.observed.get(placementId)?.observed;
    return !(observed !== undefined && hasEnded(observed)) && !state.goneNodes.has(nodeId);
  });
}
