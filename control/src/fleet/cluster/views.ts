import type { Log } from "../../log.ts";
import { createView, type Decode, type Entry, type Etcd, type View } from "../../stores/etcd/index.ts";
import {
  decodeEdge,
  decodeNode,
  decodeRoute,
  decodeValue,
  decodeVersioned,
  type EdgeEntry,
  type NodeEntry,
  type Problem,
  type RouteKey,
  type Versioned,
} from "./entries.ts";
import {
  type ClusterStatusValue,
  clusterStatusValue,
  keys,
  type ObservationValue,
  observationValue,
  type PlacementValue,
  placementValue,
  prefix,
  type RunValue,
  runValue,
  type ServerValue,
  serverValue,
} from "./keys.ts";
import { indexByNode, type NodeIndex } from "./node-index.ts";

/**
 * What a process follows of the cluster in etcd: one watch per prefix, each value decoded once, for everybody. Whoever
 * needs a part of it takes that part.
 */
export interface ClusterViews extends AsyncDisposable {
  servers: View<ServerValue>;
  nodes: View<NodeEntry>;
  edges: View<EdgeEntry>;
  placements: View<Versioned<PlacementValue>>;
  observations: View<ObservationValue>;
  runs: View<Versioned<RunValue>>;
  routes: View<RouteKey>;
  status: View<ClusterStatusValue>;
  /** The create revision of the leader key: the leader's epoch. */
  leader: View<bigint>;
  placementsByNode: NodeIndex<Versioned<PlacementValue>>;
  runsByNode: NodeIndex<Versioned<RunValue>>;
  /** All have their first snapshot. @throws EtcdError TIMEOUT after `timeoutMs` (default 30 s), CLOSED. */
  ready(timeoutMs?: number): Promise<void>;
}

/** Starts at once, and follows until disposed. */
export function watchCluster(etcd: Etcd, log: Log): ClusterViews {
  const problem: Problem = ({ key, modRevision }, error) =>
    log.error(
      { err: error, etcdKey: key, modRevision: String(modRevision) },
      "a part of an etcd value does not decode",
    );
  const view = <T>(under: string, decode: Decode<T>): View<T> => createView(etcd, under, decode, { log });
  const inPart =
    <T>(decode: (entry: Entry, problem: Problem) => T): Decode<T> =>
    (_key, _value, entry) =>
      decode(entry, problem);
  const views = {
    servers: view(prefix.servers, decodeValue(serverValue)),
    nodes: view(prefix.nodes, inPart(decodeNode)),
    edges: view(prefix.edges, inPart(decodeEdge)),
    placements: view(prefix.placements, decodeVersioned(placementValue)),
    observations: view(prefix.observations, decodeValue(observationValue)),
    runs: view(prefix.runs, decodeVersioned(runValue)),
    routes: view(prefix.routes, inPart(decodeRoute)),
    status: view(keys.clusterStatus, decodeValue(clusterStatusValue)),
    leader: view(keys.leader, (_key, _value, { createRevision }) => createRevision),
  };
  const all: View<unknown>[] = Object.values(views);
  return {
    ...views,
    placementsByNode: indexByNode(views.placements, prefix.placements),
    runsByNode: indexByNode(views.runs, prefix.runs),
    ready: async (timeoutMs) => void (await Promise.all(all.map((each) => each.ready(timeoutMs)))),
    async [Symbol.asyncDispose]() {
      await Promise.all(all.map((each) => each.close()));
    },
  };
}
