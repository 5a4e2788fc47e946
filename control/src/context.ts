import type { NodeAxes } from "@svc/proto";
import type { Registry } from "@svc/registry";
import type { ClusterIdentity } from "./ca/authority.ts";
import type { OperatorFacts } from "./cluster/operators.ts";
import type { Config } from "./config.ts";
import type { Db } from "./db/pool.ts";
import type { Log } from "./log.ts";
import type { Secrets } from "./secrets.ts";

/** Last lines of a container, oldest first. */
export interface RuntimeLog {
  text: string;
  lines: number;
  /** `absent`: there is no container, and nothing is left of one that ended by itself. */
  state: "running" | "exited" | "absent";
  /** Null while it runs, and when it was told to stop. */
  exit: RuntimeExit | null;
}

/** The end of a container that nobody asked for. */
export interface RuntimeExit {
  /** Null when it still ran and was given up. */
  code: number | null;
  oomKilled: boolean;
  /** A sentence or two for the person who deployed. */
  reason: string;
  /** ISO 8601. */
  at: string;
}

/** What endpoints are given. Below a handler, functions take the parts they use. */
export interface Context {
  config: Config;
  db: Db;
  log: Log;
  registry: Registry;
  secrets: Secrets;
  cluster: ClusterIdentity;
  now(): Date;
  newId(): string;
  /** Throws `LogUnavailable` when the node does not answer in time. */
  queryLog(nodeId: string, placementId: string, lines: number): Promise<RuntimeLog>;
  /** Live facts of the fleet, from etcd: which nodes have a session, who serves what. */
  fleet: FleetView;
  /** What operators are told of the cluster. */
  operators: OperatorFacts;
}

/** Something that the leader gave to a node and that is not over, as far as its node said. */
export interface HeldPlacement {
  nodeId: string;
  /** The task's id. */
  placementId: string;
  kind: "build" | "serve";
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
  deploymentId: string;
  /** It may have started: nobody else may do it. */
  claimed: boolean;
}

export interface FleetView {
  /** Every control replica that is announced, this one among them. */
  replicas(): { serverId: string; startedAt: string }[];
  /** Whether an agent or router has a live stream to any control replica. */
  isConnected(nodeId: string): boolean;
  /** How a node or edge is linked, and since when, as far as this replica has seen. */
  nodeLink(nodeId: string): { link: Exclude<NodeAxes["link"], "quarantined">; since: Date };
  placements(): HeldPlacement[];
  runs(): HeldRun[];
  /**
   * How often tasks of projects have failed on nodes lately, by `failureKey`, as the rounds of the scheduler saw it; null
   * when this replica does not lead: only the leader knows.
   */
  lateFailures(): ReadonlyMap<string, number> | null;
  /** Generation of the published route table. */
  routesMeta(): { generation: number };
  /** What an edge serves; null when it never said. */
  edgeApplied(edgeId: string): { generation: number; behindHosts: string[] } | null;
}
