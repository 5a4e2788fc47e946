import { type Clock, steadyDates } from "@svc/runtime/clock";
import {
  type ClusterStatusValue,
  type EdgeAppliedValue,
  type EdgeSessionValue,
  keyParts,
  keys,
  type NodeSessionValue,
  noRoutes,
  type ObservationValue,
  type PlacementValue,
  prefix,
  type RoutesMetaValue,
  type RunValue,
  type ServerValue,
} from "./keys.ts";
import { isStreamless, type NodeLink, nodeLink } from "./node-links.ts";
import type { RouteEntry } from "./route-entry.ts";
import { followStreams } from "./stream-states.ts";
import type { ClusterViews } from "./views.ts";

/**
 * What this replica knows of the cluster, from its views in memory. Reads never wait; they may be a moment behind, so
 * every write that rests on them carries a guard.
 */
export interface Fleet extends Disposable {
  /** Calls back after any change of what the name says, with the keys that changed; without them it may be any. */
  onChange(
    what: "nodes" | "placements" | "runs" | "routes" | "edges" | "status",
    callback: (changes?: readonly { key: string }[]) => void,
  ): Disposable;
  /** By which it tells since when something is so: setting the system's clock makes nothing older or younger. */
  now(): Date;
  /** When this replica began to watch. */
  lookingSince: Date;
  /** Every control replica that is announced. */
  replicas(): ServerValue[];
  nodeSession(nodeId: string): { session: NodeSessionValue; serverAlive: boolean } | null;
  /** How a node or edge is linked, and since when, as far as this replica has seen. */
  nodeLink(nodeId: string): { link: NodeLink; since: Date };
  /** Since when the node has had no stream, as far as this replica has seen; null while it has one. */
  nodeLostAt(nodeId: string): Date | null;
  /** Whether it had no stream when this replica began to watch, and none since: nobody knows when it went. */
  wasAwayAtFirst(nodeId: string): boolean;
  /** Session keys of nodes and edges whose replica of control is gone, and that nobody has taken over for a whole lease. */
  staleSessions(): { key: string; serverId: string; modRevision: bigint }[];
  /** What the leader thinks of the cluster; null before the first. */
  status(): ClusterStatusValue | null;
  placements(): { nodeId: string; placement: PlacementValue; modRevision: bigint }[];
  observation(nodeId: string, placementId: string): ObservationValue | null;
  /** Ids of what is placed on the node. */
  placedOn(nodeId: string): string[];
  /** The placement of a task, wherever it is. */
  findPlacement(placementId: string): { nodeId: string; placement: PlacementValue } | null;
  /** An attempt, wherever it was offered. */
  findRun(attemptId: string): { nodeId: string; run: RunValue; modRevision: bigint } | null;
  /** Every attempt of which there is a record. */
  runs(): { nodeId: string; run: RunValue; modRevision: bigint }[];
  /** The whole published table; for one host `route` is cheaper. */
  routeTable(): ReadonlyMap<string, RouteEntry>;
  route(host: string): RouteEntry | null;
  /** Whether the published table names a project, under whatever host; looks through all of it. */
  isRouted(projectId: string): boolean;
  /** What the table is; `modRevision` is null before the first one. */
  routesMeta(): RoutesMetaValue & { modRevision: bigint | null };
  edgeSession(edgeId: string): EdgeSessionValue | null;
  edgeApplied(edgeId: string): EdgeAppliedValue | null;
}

/** Tells of what `views` follow. They outlive it. */
export function createFleet(views: ClusterViews, clock: Clock): Fleet {
  const { servers, nodes, edges, placements, observations, runs, routes, status } = views;
  const now = steadyDates(clock);
  const streams = followStreams(views, now);
  const watched = {
    nodes: [nodes, servers],
    placements: [placements, observations],
    runs: [runs],
    routes: [routes],
    edges: [edges],
    status: [status],
  } as const;
  return {
    now,
    lookingSince: streams.lookingSince,
    replicas: () => [...servers.entries()].map(([, value]) => ({ ...value })),
    onChange(what, callback) {
      const stops = watched[what].map((view) => view.subscribe(callback));
      return { [Symbol.dispose]: () => stops.forEach((stop) => void stop[Symbol.dispose]()) };
    },
    nodeSession(nodeId) {
      const session = nodes.get(keys.nodeSession(nodeId))?.session ?? null;
      if (session === null) return null;
      return { session, serverAlive: servers.get(keys.server(session.serverId)) !== undefined };
    },
    nodeLink(nodeId) {
      const { state, since } = streams.of(nodeId);
      return nodeLink(state, since, now());
    },
    nodeLostAt(nodeId) {
      const { state, since } = streams.of(nodeId);
      return isStreamless(state) ? since : null;
    },
    wasAwayAtFirst(nodeId) {
      const { state, since } = streams.of(nodeId);
      return isStreamless(state) && since <= streams.lookingSince;
    },
    staleSessions() {
      const isLeft = (id: string) => {
        const { state, since } = streams.of(id);
        return state === "orphaned" && nodeLink(state, since, now()).link === "unreachable";
      };
      const leftIn = (view: typeof nodes | typeof edges, under: string) =>
        [...view.entries()].flatMap(([key, { session, modRevision }]) =>
          session !== null && isLeft(keyParts(key, under)[0] ?? "")
            ? [{ key, serverId: session.serverId, modRevision }]
            : [],
        );
      return [...leftIn(nodes, prefix.nodes), ...leftIn(edges, prefix.edges)];
    },
    status: () => status.get(keys.clusterStatus) ?? null,
    placements: () =>
      [...placements.entries()].map(([key, { value, modRevision }]) => ({
        nodeId: keyParts(key, prefix.placements)[0] ?? "",
        placement: value,
        modRevision,
      })),
    observation: (nodeId, placementId) => observations.get(keys.observation(nodeId, placementId)) ?? null,
    placedOn: (nodeId) => [...views.placementsByNode.of(nodeId).keys()],
    findPlacement(placementId) {
      const found = views.placementsByNode.find(placementId);
      return found && { nodeId: found.nodeId, placement: found.value.value };
    },
    findRun(attemptId) {
      const found = views.runsByNode.find(attemptId);
      return found && { nodeId: found.nodeId, run: found.value.value, modRevision: found.value.modRevision };
    },
    runs: () =>
      [...runs.entries()].map(([key, { value, modRevision }]) => ({
        nodeId: keyParts(key, prefix.runs)[0] ?? "",
        run: value,
        modRevision,
      })),
    routeTable: () =>
      new Map(
        [...routes.entries()].flatMap(([, value]) =>
          value.kind === "route" && value.entry !== null ? [[value.entry.host, value.entry]] : [],
        ),
      ),
    route(host) {
      const found = routes.get(keys.route(host));
      return found?.kind === "route" ? found.entry : null;
    },
    isRouted(projectId) {
      for (const [, value] of routes.entries())
        if (value.kind === "route" && value.entry?.projectId === projectId) return true;
      return false;
    },
    routesMeta() {
      const found = routes.get(keys.routesMeta);
      return found?.kind === "meta"
        ? { ...found.meta, modRevision: found.modRevision }
        : { ...noRoutes, modRevision: null };
    },
    edgeSession: (edgeId) => edges.get(keys.edgeSession(edgeId))?.session ?? null,
    edgeApplied: (edgeId) => edges.get(keys.edgeApplied(edgeId))?.applied ?? null,
    [Symbol.dispose]: () => streams[Symbol.dispose](),
  };
}
