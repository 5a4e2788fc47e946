import type { Registry } from "@svc/registry";
import type { ClusterIdentity } from "./ca/authority.ts";
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
}

export interface FleetView {
  /** Every control replica that is announced, this one among them. */
  replicas(): { serverId: string; startedAt: string }[];
  /** Whether an agent or router has a live stream to any control replica. */
  isConnected(nodeId: string): boolean;
  /** Placements that the leader gave to the node and that are not yet gone. */
  placementsOf(
    nodeId: string,
  ): { placementId: string; kind: "build" | "serve"; memoryMb: number; cpuMillicores: number; running: boolean }[];
}
