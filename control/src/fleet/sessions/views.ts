import type { Log } from "../../log.ts";
import { type Change, createView, type Etcd, type View } from "../../stores/etcd/index.ts";
import { keyParts, keys, placementValue, prefix, type RunValue, routesMetaValue, runValue } from "../cluster/keys.ts";
import type { DesiredPlacement } from "./outbox.ts";

/** Which stream has a daemon's session key, as far as this replica has heard. */
export interface SessionClaim {
  modRevision: bigint;
  /** The value as written: it names one stream. */
  value: string;
}

/** One key under routes/. */
export type RouteKey =
  /** JSON of the protobuf Route. */
  | { kind: "route"; host: string; json: string; modRevision: bigint }
  | { kind: "meta"; generation: number; count: number; emptied: boolean; modRevision: bigint };

/** What the link follows in etcd: one watch each per process, shared by all streams. */
export interface LinkViews extends AsyncDisposable {
  placements: View<DesiredPlacement>;
  runs: View<RunValue>;
  routes: View<RouteKey>;
  nodes: View<SessionClaim>;
  edges: View<SessionClaim>;
  /** The create revision of the leader key: the leader's epoch. */
  leader: View<bigint>;
  ready(): Promise<void>;
}

const routesPrefix = `${prefix.root}routes/`;

export function createLinkViews(etcd: Etcd, log: Log): LinkViews {
  const options = { log };
  const claim = (_: string, value: string, { modRevision }: { modRevision: bigint }) => ({ value, modRevision });
  const views = {
    placements: createView<DesiredPlacement>(
      etcd,
      prefix.placements,
      (_, value, { modRevision, createRevision }) => ({
        value: placementValue.parse(JSON.parse(value)),
        modRevision,
        createRevision,
      }),
      options,
    ),
    runs: createView(etcd, prefix.runs, (_, value) => runValue.parse(JSON.parse(value)), options),
    routes: createView<RouteKey>(
      etcd,
      routesPrefix,
      (key, value, { modRevision }) => {
        if (key !== keys.routesMeta) {
          return { kind: "route", host: key.slice(prefix.routeTable.length), json: value, modRevision };
        }
        const { generation, count, emptied = false } = routesMetaValue.parse(JSON.parse(value));
        return { kind: "meta", generation, count, emptied, modRevision };
      },
      options,
    ),
    nodes: createView<SessionClaim>(etcd, prefix.nodes, claim, options),
    edges: createView<SessionClaim>(etcd, prefix.edges, claim, options),
    leader: createView(etcd, keys.leader, (_, __, { createRevision }) => createRevision, options),
  };
  const all = Object.values(views);
  return {
    ...views,
    ready: async () => void (await Promise.all(all.map((view) => view.ready()))),
    async [Symbol.asyncDispose]() {
      await Promise.all(all.map((view) => view.close()));
    },
  };
}

/** The values of a view, by the first part of their key: a node's own share, without a walk through everybody's. */
export interface NodeIndex<T> extends Disposable {
  /** What is there for the node, by the second part of the key. Live: it changes under the reader between two waits. */
  of(nodeId: string): ReadonlyMap<string, T>;
  /** Calls back after each change of the node's share. */
  subscribe(nodeId: string, callback: () => void): Disposable;
}

const none: ReadonlyMap<string, never> = new Map<string, never>();

export function indexByNode<T>(view: View<T>, under: string): NodeIndex<T> {
  const byNode = new Map<string, Map<string, T>>();
  const callbacks = new Map<string, Set<() => void>>();
  function apply(change: Change<T>): string {
    const [nodeId = "", id = ""] = keyParts(change.key, under);
    const own = byNode.get(nodeId) ?? new Map<string, T>();
    if (change.type === "put") own.set(id, change.value);
    else own.delete(id);
    if (own.size > 0) byNode.set(nodeId, own);
    else byNode.delete(nodeId);
    return nodeId;
  }
  for (const [key, value] of view.entries()) apply({ type: "put", key, value, previous: undefined });
  const subscription = view.subscribe((changes) => {
    for (const nodeId of new Set(changes.map(apply))) for (const callback of callbacks.get(nodeId) ?? []) callback();
  });
  return {
    of: (nodeId) => byNode.get(nodeId) ?? none,
    subscribe(nodeId, callback) {
      const own = callbacks.get(nodeId) ?? new Set();
      callbacks.set(nodeId, own.add(callback));
      return {
        [Symbol.dispose]: () => {
          own.delete(callback);
          if (own.size === 0 && callbacks.get(nodeId) === own) callbacks.delete(nodeId);
        },
      };
    },
    [Symbol.dispose]: () => subscription[Symbol.dispose](),
  };
}
