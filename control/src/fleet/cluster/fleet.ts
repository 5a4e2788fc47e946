import { type Clock, steadyDates } from "@svc/runtime/clock";
import type { Log } from "../../log.ts";
import { createView, type Etcd, type View } from "../../stores/etcd/index.ts";
import {
  type ClusterStatusValue,
  clusterStatusValue,
  type EdgeAppliedValue,
  type EdgeSessionValue,
  edgeAppliedValue,
  edgeSessionValue,
  keyParts,
  keys,
  type NodeSessionValue,
  nodeSessionValue,
  noRoutes,
  type ObservationValue,
  observationValue,
  type PlacementValue,
  placementValue,
  prefix,
  type RoutesMetaValue,
  type RunValue,
  routesMetaValue,
  runValue,
  type ServerValue,
  serverValue,
} from "./keys.ts";
import { isStreamless, type NodeLink, nodeLink, type StreamState, streamState } from "./node-links.ts";
import type { RouteEntry } from "./route-entry.ts";

type RoutesKey = { entry: RouteEntry } | { meta: RoutesMetaValue; modRevision: bigint };

/**
 * What this replica knows of the cluster: one watch per prefix, kept in memory. Reads never wait;
 * they may be a moment behind, so every write that rests on them carries a guard.
 */
export interface Fleet extends AsyncDisposable {
  /** All views have their first snapshot. */
  ready(timeoutMs?: number): Promise<void>;
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
  leftSessions(): { key: string; serverId: string; modRevision: bigint }[];
  /** What the leader thinks of the cluster; null before the first. */
  status(): ClusterStatusValue | null;
  placements(): { nodeId: string; placement: PlacementValue; modRevision: bigint }[];
  placement(nodeId: string, placementId: string): PlacementValue | null;
  observation(nodeId: string, placementId: string): ObservationValue | null;
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

/** The most that a timer takes. */
const longestWaitMs = 2 ** 31 - 1;
type EdgeKey = { session: EdgeSessionValue; modRevision: bigint } | { applied: EdgeAppliedValue };

interface Versioned<T> {
  value: T;
  modRevision: bigint;
}

export function createFleet(etcd: Etcd, { clock, log }: { clock: Clock; log: Log }): Fleet {
  const now = steadyDates(clock);
  const json =
    <T>(schema: { parse(value: unknown): T }) =>
    (_key: string, value: string, entry: { modRevision: bigint }): Versioned<T> => ({
      value: schema.parse(JSON.parse(value)),
      modRevision: entry.modRevision,
    });
  const options = { log };
  const servers = createView(etcd, prefix.servers, json(serverValue), options);
  const nodes = createView(etcd, prefix.nodes, json(nodeSessionValue), options);
  const placements = createView(etcd, prefix.placements, json(placementValue), options);
  const observations = createView(etcd, prefix.observations, json(observationValue), options);
  const runs = createView(etcd, prefix.runs, json(runValue), options);
  const routes = createView(
    etcd,
    "/svc/routes/",
    (key, value, { modRevision }): RoutesKey =>
      key === keys.routesMeta
        ? { meta: routesMetaValue.parse(JSON.parse(value)), modRevision }
        : { entry: JSON.parse(value) as RouteEntry },
    options,
  );
  const edges = createView(
    etcd,
    prefix.edges,
    (key, value, { modRevision }): EdgeKey =>
      key.endsWith("/session")
        ? { session: edgeSessionValue.parse(JSON.parse(value)), modRevision }
        : { applied: edgeAppliedValue.parse(JSON.parse(value)) },
    options,
  );
  const status = createView(etcd, keys.clusterStatus, json(clusterStatusValue), options);
  const all: View<unknown>[] = [servers, nodes, placements, observations, runs, routes, edges, status];

  const startedAt = now();
  const sessionOfEdge = (edgeId: string) => {
    const found = edges.get(keys.edgeSession(edgeId));
    return found && "session" in found ? found.session : undefined;
  };
  const stateOf = (id: string): StreamState => {
    const edge = sessionOfEdge(id);
    const session = nodes.get(keys.nodeSession(id))?.value ?? (edge && { ...edge, reconciled: true, suspect: false });
    return streamState(session, session !== undefined && servers.get(keys.server(session.serverId)) !== undefined);
  };
  // When each stream was seen to change: kept here because nobody writes that anywhere.
  const streams = new Map<string, { state: StreamState; since: Date }>();
  // What the first snapshots say was so before.
  let hasLooked = false;
  void Promise.all([servers, nodes, edges].map((view) => view.ready(longestWaitMs))).then(
    () => {
      hasLooked = true;
    },
    // Closed before.
    () => {},
  );
  const note = (nodeId: string): void => {
    const state = stateOf(nodeId);
    const before = streams.get(nodeId);
    if (before?.state === state) return;
    // Who clears a key that was left behind does not lose the node anew.
    const isCleared = before?.state === "orphaned" && state === "absent";
    const since = isCleared ? before.since : hasLooked ? now() : startedAt;
    streams.set(nodeId, { state, since });
  };
  const streamOf = (nodeId: string) => streams.get(nodeId) ?? { state: stateOf(nodeId), since: startedAt };
  // Placement id -> node, and attempt id -> key: neither ever moves.
  const nodeOf = new Map<string, string>();
  const keyOfRun = new Map<string, string>();
  const following = [
    nodes.subscribe((changes) => {
      for (const { key } of changes) note(keyParts(key, prefix.nodes)[0] ?? "");
    }),
    edges.subscribe((changes) => {
      for (const { key } of changes) note(keyParts(key, prefix.edges)[0] ?? "");
    }),
    servers.subscribe(() => {
      for (const [key] of nodes.entries()) note(keyParts(key, prefix.nodes)[0] ?? "");
      for (const [key] of edges.entries()) note(keyParts(key, prefix.edges)[0] ?? "");
    }),
    placements.subscribe((changes) => {
      for (const { type, key } of changes) {
        const [nodeId = "", placementId = ""] = keyParts(key, prefix.placements);
        if (type === "put") nodeOf.set(placementId, nodeId);
        else if (nodeOf.get(placementId) === nodeId) nodeOf.delete(placementId);
      }
    }),
    runs.subscribe((changes) => {
      for (const change of changes) {
        if (change.type === "put") keyOfRun.set(change.value.value.attemptId, change.key);
        else if (keyOfRun.get(change.previous.value.attemptId) === change.key)
          keyOfRun.delete(change.previous.value.attemptId);
      }
    }),
  ];

  const watched = {
    nodes: [nodes, servers],
    placements: [placements, observations],
    runs: [runs],
    routes: [routes],
    edges: [edges],
    status: [status],
  } as const;

  const allRuns = () =>
    [...runs.entries()].map(([key, { value, modRevision }]) => ({
      nodeId: keyParts(key, prefix.runs)[0] ?? "",
      run: value,
      modRevision,
    }));

  return {
    now,
    lookingSince: startedAt,
    replicas: () => [...servers.entries()].map(([, { value }]) => ({ ...value })),
    async ready(timeoutMs) {
      await Promise.all(all.map((view) => view.ready(timeoutMs)));
    },
    onChange(what, callback) {
      const stops = watched[what].map((view) => view.subscribe(callback));
      return { [Symbol.dispose]: () => stops.forEach((stop) => void stop[Symbol.dispose]()) };
    },
    nodeSession(nodeId) {
      const found = nodes.get(keys.nodeSession(nodeId));
      if (found === undefined) return null;
      const serverAlive = servers.get(keys.server(found.value.serverId)) !== undefined;
      return { session: found.value, serverAlive };
    },
    nodeLink(nodeId) {
      const { state, since } = streamOf(nodeId);
      return nodeLink(state, since, now());
    },
    nodeLostAt(nodeId) {
      const { state, since } = streamOf(nodeId);
      return isStreamless(state) ? since : null;
    },
    wasAwayAtFirst(nodeId) {
      const { state, since } = streamOf(nodeId);
      return isStreamless(state) && since <= startedAt;
    },
    leftSessions() {
      const sessions = [
        ...[...nodes.entries()].map(([key, { value, modRevision }]) => ({
          ...{ id: keyParts(key, prefix.nodes)[0] ?? "", key, serverId: value.serverId, modRevision },
        })),
        ...[...edges.entries()].flatMap(([key, value]) =>
          "session" in value
            ? [
                {
                  ...{ id: keyParts(key, prefix.edges)[0] ?? "", key },
                  ...{ serverId: value.session.serverId, modRevision: value.modRevision },
                },
              ]
            : [],
        ),
      ];
      return sessions.flatMap(({ id, key, serverId, modRevision }) => {
        const { state, since } = streamOf(id);
        const isLeft = state === "orphaned" && nodeLink(state, since, now()).link === "unreachable";
        return isLeft ? [{ key, serverId, modRevision }] : [];
      });
    },
    status: () => status.get(keys.clusterStatus)?.value ?? null,
    placements: () =>
      [...placements.entries()].map(([key, { value, modRevision }]) => ({
        nodeId: keyParts(key, prefix.placements)[0] ?? "",
        placement: value,
        modRevision,
      })),
    placement: (nodeId, placementId) => placements.get(keys.placement(nodeId, placementId))?.value ?? null,
    observation: (nodeId, placementId) => observations.get(keys.observation(nodeId, placementId))?.value ?? null,
    findPlacement(placementId) {
      const nodeId = nodeOf.get(placementId);
      const found = nodeId === undefined ? undefined : placements.get(keys.placement(nodeId, placementId));
      return nodeId !== undefined && found ? { nodeId, placement: found.value } : null;
    },
    findRun(attemptId) {
      const key = keyOfRun.get(attemptId);
      const found = key === undefined ? undefined : runs.get(key);
      if (key === undefined || found === undefined) return null;
      return { nodeId: keyParts(key, prefix.runs)[0] ?? "", run: found.value, modRevision: found.modRevision };
    },
    runs: allRuns,
    routeTable: () =>
      new Map(
        [...routes.entries()].flatMap(([, value]) => ("entry" in value ? [[value.entry.host, value.entry]] : [])),
      ),
    route(host) {
      const found = routes.get(keys.route(host));
      return found && "entry" in found ? found.entry : null;
    },
    isRouted(projectId) {
      for (const [, value] of routes.entries())
        if ("entry" in value && value.entry.projectId === projectId) return true;
      return false;
    },
    routesMeta() {
      const found = routes.get(keys.routesMeta);
      return found && "meta" in found
        ? { ...found.meta, modRevision: found.modRevision }
        : { ...noRoutes, modRevision: null };
    },
    edgeSession: (edgeId) => sessionOfEdge(edgeId) ?? null,
    edgeApplied(edgeId) {
      const found = edges.get(keys.edgeApplied(edgeId));
      return found && "applied" in found ? (found.applied ?? null) : null;
    },
    async [Symbol.asyncDispose]() {
      for (const each of following) each[Symbol.dispose]();
      await Promise.all(all.map((view) => view[Symbol.asyncDispose]()));
    },
  };
}
