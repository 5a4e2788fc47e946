import type { FleetView } from "../context.ts";
import { createView, type Etcd, type View } from "../etcd/index.ts";
import type { Log } from "../log.ts";
import type { RouteEntry } from "../routes/table.ts";
import {
  type EdgeAppliedValue,
  type EdgeSessionValue,
  edgeAppliedValue,
  edgeSessionValue,
  hasEnded,
  keyParts,
  keys,
  type NodeSessionValue,
  nodeSessionValue,
  type ObservationValue,
  observationValue,
  type PlacementValue,
  placementValue,
  prefix,
  type RoutesMetaValue,
  type RunValue,
  routesMetaValue,
  runValue,
  serverValue,
} from "./keys.ts";

type RoutesKey = { entry: RouteEntry } | { meta: RoutesMetaValue; modRevision: bigint };

/**
 * What this replica knows of the cluster: one watch per prefix, kept in memory. Reads never wait;
 * they may be a moment behind, so every write that rests on them carries a guard.
 */
export interface Fleet extends AsyncDisposable {
  /** All views have their first snapshot. */
  ready(timeoutMs?: number): Promise<void>;
  /** Calls back after any change of what the name says. */
  onChange(what: "nodes" | "placements" | "runs" | "routes" | "edges", callback: () => void): Disposable;
  /** When this replica began to watch. */
  lookingSince: Date;
  /** Every control replica that is announced. */
  replicas(): { serverId: string; startedAt: string }[];
  nodeSession(nodeId: string): { session: NodeSessionValue; serverAlive: boolean } | null;
  /** Since when the node has had no stream, as far as this replica has seen; null while it has one. */
  nodeLostAt(nodeId: string): Date | null;
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
  /** What the table is; `modRevision` is null before the first one. */
  routesMeta(): RoutesMetaValue & { modRevision: bigint | null };
  edgeSession(edgeId: string): EdgeSessionValue | null;
  edgeApplied(edgeId: string): EdgeAppliedValue | null;
}

const emptyMeta: RoutesMetaValue = { generation: 0, digest: "", count: 0 };

interface Versioned<T> {
  value: T;
  modRevision: bigint;
}

export function createFleet(etcd: Etcd, { log, now }: { log: Log; now: () => Date }): Fleet {
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
    (key, value) =>
      key.endsWith("/session")
        ? { session: edgeSessionValue.parse(JSON.parse(value)) }
        : { applied: edgeAppliedValue.parse(JSON.parse(value)) },
    options,
  );
  const all: View<unknown>[] = [servers, nodes, placements, observations, runs, routes, edges];

  // The moment a stream was last seen to be missing: kept here because nobody writes it anywhere.
  const startedAt = now();
  const lostAt = new Map<string, Date>();
  const liveness = nodes.subscribe(() => {
    const live = new Set([...nodes.entries()].map(([key]) => keyParts(key, prefix.nodes)[0]));
    for (const id of live) if (id !== undefined) lostAt.delete(id);
    for (const id of known) if (!live.has(id) && !lostAt.has(id)) lostAt.set(id, now());
    for (const id of live) if (id !== undefined) known.add(id);
  });
  const known = new Set<string>();
  // Placement id -> node: a placement never moves, so the index only needs the present keys.
  const nodeOf = new Map<string, string>();
  const indexing = placements.subscribe(() => {
    nodeOf.clear();
    for (const [key] of placements.entries()) {
      const [nodeId, placementId] = keyParts(key, prefix.placements);
      if (nodeId !== undefined && placementId !== undefined) nodeOf.set(placementId, nodeId);
    }
  });

  const watched = {
    nodes: [nodes, servers],
    placements: [placements, observations],
    runs: [runs],
    routes: [routes],
    edges: [edges],
  } as const;

  const allRuns = () =>
    [...runs.entries()].map(([key, { value, modRevision }]) => ({
      nodeId: keyParts(key, prefix.runs)[0] ?? "",
      run: value,
      modRevision,
    }));

  return {
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
    nodeLostAt(nodeId) {
      if (nodes.get(keys.nodeSession(nodeId)) !== undefined) return null;
      return lostAt.get(nodeId) ?? startedAt;
    },
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
    findRun: (attemptId) => allRuns().find(({ run }) => run.attemptId === attemptId) ?? null,
    runs: allRuns,
    routeTable: () =>
      new Map(
        [...routes.entries()].flatMap(([, value]) => ("entry" in value ? [[value.entry.host, value.entry]] : [])),
      ),
    route(host) {
      const found = routes.get(keys.route(host));
      return found && "entry" in found ? found.entry : null;
    },
    routesMeta() {
      const found = routes.get(keys.routesMeta);
      return found && "meta" in found
        ? { ...found.meta, modRevision: found.modRevision }
        : { ...emptyMeta, modRevision: null };
    },
    edgeSession(edgeId) {
      const found = edges.get(keys.edgeSession(edgeId));
      return found && "session" in found ? (found.session ?? null) : null;
    },
    edgeApplied(edgeId) {
      const found = edges.get(keys.edgeApplied(edgeId));
      return found && "applied" in found ? (found.applied ?? null) : null;
    },
    async [Symbol.asyncDispose]() {
      liveness[Symbol.dispose]();
      indexing[Symbol.dispose]();
      await Promise.all(all.map((view) => view[Symbol.asyncDispose]()));
    },
  };
}

/** The part of the fleet's facts that endpoints show. */
export const fleetView = (fleet: Fleet): FleetView => ({
  replicas: () => fleet.replicas().map(({ serverId, startedAt }) => ({ serverId, startedAt })),
  isConnected: (nodeId) => fleet.nodeSession(nodeId)?.serverAlive === true || fleet.edgeSession(nodeId) !== null,
  placementsOf: (nodeId) =>
    fleet
      .placements()
      .filter((each) => each.nodeId === nodeId)
      .map(({ placement }) => {
        const observed = fleet.observation(nodeId, placement.placementId)?.observed;
        return {
          ...placement,
          running: observed === "running",
          isEnded: observed !== undefined && hasEnded(observed),
        };
      })
      .filter(({ isEnded }) => !isEnded),
});
