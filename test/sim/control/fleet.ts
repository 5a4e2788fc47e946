import {
  type ClusterStatusValue,
  type EdgeAppliedValue,
  keyParts,
  keys,
  noRoutes,
  type ObservationValue,
  type PlacementValue,
  prefix,
  type RoutesMetaValue,
  type RunValue,
} from "@svc/control/fleet/cluster/keys";
import {
  isStreamless,
  nodeLink,
  type SeenStream,
  type StreamState,
  seenStream,
  streamState,
} from "@svc/control/fleet/cluster/node-links";
import type { RouteEntry } from "@svc/control/fleet/cluster/route-entry";
import type { Scope } from "../kernel/kernel.ts";
import type { Values } from "../stores/etcd.ts";
import { type EtcdClient, View } from "../stores/etcd-client.ts";

/** What the session key of a node says, as far as the virtual shells need it. */
export interface SessionValue {
  serverId: string;
  instanceId: string;
  bootId: string;
  connectedAt: string;
  memoryMb: number;
  reconciled: boolean;
  suspect: boolean;
  detached: boolean;
  takeovers: { instanceId: string; bootId: string; at: string }[];
}

/** What a machine of that size has, of what is of no interest here more than enough. */
export const capacityOf = (memoryMb: number) => ({ memoryMb, cpuMillicores: 100_000, pids: 100_000, diskMb: 0 });

export interface EdgeSessionValue {
  serverId: string;
  instanceId: string;
  connectedAt: string;
  detached: boolean;
}

export interface Versioned<T> {
  value: T;
  modRevision: bigint;
  createRevision: bigint;
}

export type RoutesKey = { entry: RouteEntry } | { meta: RoutesMetaValue };

/** What a replica of control knows of the cluster: mirrors `views.ts`, `stream-states.ts` and `fleet.ts` of `control/src/fleet/cluster`. */
export class Fleet {
  readonly servers: View<Versioned<unknown>>;
  readonly nodes: View<Versioned<SessionValue>>;
  readonly placements: View<Versioned<PlacementValue>>;
  readonly observations: View<Versioned<ObservationValue>>;
  readonly runs: View<Versioned<RunValue>>;
  readonly routes: View<Versioned<RoutesKey>>;
  readonly edges: View<Versioned<EdgeSessionValue | EdgeAppliedValue>>;
  readonly leader: View<Versioned<string>>;
  readonly status: View<Versioned<ClusterStatusValue>>;
  readonly lookingSince: Date;
  /** The first snapshots are there: what changes from now on changes now. */
  hasLooked = false;
  private readonly clockOffsetMs: number;
  private readonly streams = new Map<string, SeenStream>();
  private readonly nodeOf = new Map<string, string>();
  /** Placements of each node, as the node's sessions want them. */
  readonly byNode = new Map<string, Map<string, Versioned<PlacementValue>>>();

  private readonly scope: Scope;

  constructor(client: EtcdClient, values: Values, scope: Scope) {
    this.scope = scope;
    const view = <T>(under: string): View<Versioned<T>> =>
      new View(
        client,
        under,
        ({ value, modRevision, createRevision }) => ({ value: values.of<T>(value), modRevision, createRevision }),
        scope,
      );
    this.servers = view(prefix.servers);
    this.nodes = view(prefix.nodes);
    this.placements = view(prefix.placements);
    this.observations = view(prefix.observations);
    this.runs = view(prefix.runs);
    this.routes = view("/svc/routes/");
    this.edges = view(prefix.edges);
    this.leader = view(keys.leader);
    this.status = view(keys.clusterStatus);
    this.clockOffsetMs = scope.process.wallMs() - scope.process.bootMs();
    this.lookingSince = this.now();
    const note = (id: string) => {
      const at = this.hasLooked ? this.now() : this.lookingSince;
      this.streams.set(id, seenStream(this.streams.get(id), this.stateOf(id), at));
    };
    this.nodes.subscribe((changes) => {
      for (const { key } of changes) note(keyParts(key, prefix.nodes)[0] ?? "");
    });
    this.edges.subscribe((changes) => {
      for (const { key } of changes) note(keyParts(key, prefix.edges)[0] ?? "");
    });
    this.servers.subscribe(() => {
      for (const key of this.nodes.values.keys()) note(keyParts(key, prefix.nodes)[0] ?? "");
      for (const key of this.edges.values.keys()) note(keyParts(key, prefix.edges)[0] ?? "");
    });
    this.placements.subscribe((changes) => {
      for (const { type, key, value } of changes) {
        const [nodeId = "", placementId = ""] = keyParts(key, prefix.placements);
        const own = this.byNode.get(nodeId) ?? new Map<string, Versioned<PlacementValue>>();
        this.byNode.set(nodeId, own);
        if (type === "put") {
          this.nodeOf.set(placementId, nodeId);
          own.set(placementId, value);
        } else {
          if (this.nodeOf.get(placementId) === nodeId) this.nodeOf.delete(placementId);
          own.delete(placementId);
        }
      }
    });
  }

  get isReady(): boolean {
    const all = [this.servers, this.nodes, this.placements, this.observations, this.runs, this.routes, this.edges];
    return all.every(({ revision }) => revision > 0n);
  }

  /** The clock by which it tells since when something is so: nobody sets it. */
  now(): Date {
    return new Date(Math.floor(this.clockOffsetMs + this.scope.process.bootMs()));
  }

  private edgeSession(edgeId: string): EdgeSessionValue | undefined {
    const found = this.edges.get(keys.edgeSession(edgeId))?.value;
    return found !== undefined && "serverId" in found ? found : undefined;
  }

  private stateOf(id: string): StreamState {
    const edge = this.edgeSession(id);
    const session =
      this.nodes.get(keys.nodeSession(id))?.value ?? (edge && { ...edge, reconciled: true, suspect: false });
    return streamState(session, session !== undefined && this.servers.get(keys.server(session.serverId)) !== undefined);
  }

  private streamOf(nodeId: string) {
    return this.streams.get(nodeId) ?? { state: this.stateOf(nodeId), since: this.lookingSince };
  }

  /** Session keys whose replica of control is gone, and that nobody has taken over for a whole lease. */
  staleSessions(): { key: string; serverId: string; modRevision: bigint }[] {
    const sessions = [
      ...[...this.nodes.values].map(([key, { value, modRevision }]) => ({
        ...{ id: keyParts(key, prefix.nodes)[0] ?? "", key, serverId: value.serverId, modRevision },
      })),
      ...[...this.edges.values].flatMap(([key, { value, modRevision }]) =>
        "serverId" in value
          ? [{ id: keyParts(key, prefix.edges)[0] ?? "", key, serverId: value.serverId, modRevision }]
          : [],
      ),
    ];
    return sessions.filter(({ id }) => {
      const { state, since } = this.streamOf(id);
      return state === "orphaned" && nodeLink(state, since, this.now()).link === "unreachable";
    });
  }

  session(nodeId: string): { session: SessionValue; serverAlive: boolean } | null {
    const found = this.nodes.get(keys.nodeSession(nodeId));
    if (found === undefined) return null;
    return { session: found.value, serverAlive: this.servers.get(keys.server(found.value.serverId)) !== undefined };
  }

  nodeLink(nodeId: string) {
    const { state, since } = this.streamOf(nodeId);
    return nodeLink(state, since, this.now());
  }

  nodeLostAt(nodeId: string): Date | null {
    const { state, since } = this.streamOf(nodeId);
    return isStreamless(state) ? since : null;
  }

  /** Whether it had no stream when this replica began to watch, and none since: nobody knows when it went. */
  wasAwayAtFirst(nodeId: string): boolean {
    const { state, since } = this.streamOf(nodeId);
    return isStreamless(state) && since <= this.lookingSince;
  }

  observation(nodeId: string, placementId: string): ObservationValue | null {
    return this.observations.get(keys.observation(nodeId, placementId))?.value ?? null;
  }

  findPlacement(placementId: string): { nodeId: string; placement: PlacementValue } | null {
    const nodeId = this.nodeOf.get(placementId);
    const found = nodeId === undefined ? undefined : this.placements.get(keys.placement(nodeId, placementId));
    return nodeId !== undefined && found ? { nodeId, placement: found.value } : null;
  }

  findRun(nodeId: string, attemptId: string): Versioned<RunValue> | null {
    return this.runs.get(keys.run(nodeId, attemptId)) ?? null;
  }

  routeTable(): Map<string, RouteEntry> {
    const table = new Map<string, RouteEntry>();
    for (const { value } of this.routes.values.values()) if ("entry" in value) table.set(value.entry.host, value.entry);
    return table;
  }

  route(host: string): RouteEntry | null {
    const found = this.routes.get(keys.route(host))?.value;
    return found && "entry" in found ? found.entry : null;
  }

  routesMeta(): RoutesMetaValue & { modRevision: bigint | null } {
    const found = this.routes.get(keys.routesMeta);
    return found && "meta" in found.value
      ? { ...found.value.meta, modRevision: found.modRevision }
      : { ...noRoutes, modRevision: null };
  }

  edgeApplied(edgeId: string): EdgeAppliedValue | null {
    return (this.edges.get(keys.edgeApplied(edgeId))?.value as EdgeAppliedValue | undefined) ?? null;
  }
}
