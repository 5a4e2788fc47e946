import type { NodeAxes } from "@svc/proto";
import type { EdgePhase, OwnerKind, RunKind, TaskKind } from "@svc/proto/kinds";
import type { ObservationValue } from "./keys.ts";

/** Something that the leader gave to a node and that is not over, as far as its node said. */
export interface HeldPlacement {
  nodeId: string;
  /** The task's id. */
  placementId: string;
  kind: TaskKind;
  /** What is set aside for it. */
  memoryMb: number;
  cpuMillicores: number;
  pidsLimit: number;
  running: boolean;
  /** It answers its health path. */
  serving: boolean;
  /** What its node said last; null before it said anything. */
  observed: string | null;
  health: string | null;
  changedAt: string | null;
}

/** An attempt at work that must not run twice, which is not over. */
export interface HeldRun {
  nodeId: string;
  attemptId: string;
  kind: RunKind;
  ownerKind: OwnerKind;
  ownerId: string;
  /** It may have started: nobody else may do it. */
  claimed: boolean;
}

/** What an edge says of itself. */
export interface EdgeStateFacts {
  /** Of the Drain that it heeds: that of its row when it follows. */
  generation: number;
  phase: EdgePhase;
  /** Null: nothing. */
  lacks: string | null;
  /** Null: its health is good. */
  unready: string | null;
}

export interface FleetView {
  /** Every control replica that is announced, this one among them. */
  replicas(): { serverId: string; startedAt: string }[];
  /** Whether an agent or router has a live stream to any control replica. */
  isConnected(nodeId: string): boolean;
  /** How a node or edge is linked, and since when, as far as this replica has seen. */
  nodeLink(nodeId: string): { link: Exclude<NodeAxes["link"], "quarantined">; since: Date };
  placements(): HeldPlacement[];
  /** What a node said last of something that it was given, also of what is over; null before it said anything. */
  observation(nodeId: string, placementId: string): Pick<ObservationValue, "observed" | "failure" | "changedAt"> | null;
  runs(): HeldRun[];
  /**
   * How often tasks of projects have failed on nodes lately, by `failureKey`, as the rounds of the scheduler saw it; null
   * when this replica does not lead: only the leader knows.
   */
  lateFailures(): ReadonlyMap<string, number> | null;
  /** Generation of the published route table. */
  routesMeta(): { generation: number };
  /** What an edge serves; null when it never said. */
  edgeApplied(edgeId: string): {
    generation: number;
    behindHosts: string[];
    challenges?: string[] | undefined;
    certificateProblem?: string | null | undefined;
    state?: EdgeStateFacts | undefined;
  } | null;
  /** `nodeLink` by etcd itself at this moment, as far as that knows. */
  readLink(nodeId: string): Promise<ReturnType<FleetView["nodeLink"]>>;
  /** `routesMeta` and `edgeApplied` by etcd itself at this moment: what a replica sees may stand still for seconds without its noticing. */
  readRouting(): Promise<Pick<FleetView, "routesMeta" | "edgeApplied">>;
}
