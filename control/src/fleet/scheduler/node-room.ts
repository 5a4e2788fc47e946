// @pure

import type { NodeAxes } from "@svc/proto";
import type { TaskKind } from "@svc/proto/kinds";
import { rulesOf } from "../tasks/kinds/index.ts";

/** A node as the scheduler sees it. */
export interface SchedulableNode {
  id: string;
  /** Only `connected` takes new work. Two machines with one identity are `quarantined` below. */
  link: Exclude<NodeAxes["link"], "quarantined">;
  /** Not cordoned. A drain cordons as well. */
  schedulable: boolean;
  /** Being emptied, or emptied already. */
  draining: boolean;
  /** Emptied already. */
  drained?: boolean;
  /** Two machines use its identity. */
  quarantined: boolean;
  /** Below its floor of free disk space. */
  diskFull: boolean;
  /** Below its floor of memory that is really left, whatever is set aside. */
  memoryShort: boolean;
  /** Its container engine does not answer. */
  engineStalled: boolean;
  /** Its container engine must not build Dockerfiles of users. */
  refusesDockerfiles: boolean;
  os: string;
  architecture: string;
  /** Those that operators set. What it says of itself brings it nobody's sites. */
  labels: Readonly<Record<string, string>>;
  /** In which of several independent places it is; "": nobody says. */
  zone: string;
  memoryMb: number;
  cpuMillicores: number;
  pids: number;
  /** The whole disk; 0: not known. */
  diskMb: number;
}

/** Room that is set aside on a node, counted from placements whether their node answers or not. */
export interface Reservation {
  nodeId: string;
  projectId: string;
  ownerId: string;
  kind: TaskKind;
  memoryMb: number;
  cpuMillicores: number;
  pidsLimit: number;
}

/** What is free on one node; below 0 where its capacity shrank. */
export interface NodeRoom {
  readonly node: SchedulableNode;
  /** Its place among the nodes. */
  readonly index: number;
  /** That of the node. */
  readonly zone: string;
  memoryMb: number;
  cpuMillicores: number;
  pids: number;
  /** Tasks there, by kind. */
  counts: Partial<Record<TaskKind, number>>;
}

/** What is free on every node, made once per round and kept up with what the round gives away. */
export interface Room {
  readonly nodes: readonly NodeRoom[];
  /** Null for a node that is not among them. */
  of(nodeId: string): NodeRoom | null;
  /** The place of the node of each container of a deployment; twice where two share one. */
  replicasOf(ownerId: string): readonly number[];
  take(reservation: Reservation): void;
}

export function createRoom(nodes: readonly SchedulableNode[], taken: readonly Reservation[]): Room {
  const rooms = nodes.map((node, index): NodeRoom => {
    const { zone, memoryMb, cpuMillicores, pids } = node;
    return { node, index, zone, memoryMb, cpuMillicores, pids, counts: {} };
  });
  const byId = new Map(rooms.map((room) => [room.node.id, room]));
  const replicas = new Map<string, number[]>();
  const take = ({ nodeId, ownerId, kind, memoryMb, cpuMillicores, pidsLimit }: Reservation): void => {
    const room = byId.get(nodeId);
    if (room === undefined) return;
    room.memoryMb -= memoryMb;
    room.cpuMillicores -= cpuMillicores;
    room.pids -= pidsLimit;
    room.counts[kind] = (room.counts[kind] ?? 0) + 1;
    if (rulesOf(kind).placement !== "fit") return;
    const others = replicas.get(ownerId);
    if (others === undefined) replicas.set(ownerId, [room.index]);
    else others.push(room.index);
  };
  for (const each of taken) take(each);
  return {
    nodes: rooms,
    of: (nodeId) => byId.get(nodeId) ?? null,
    replicasOf: (ownerId) => replicas.get(ownerId) ?? [],
    take,
  };
}
