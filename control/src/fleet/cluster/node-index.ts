import type { Change, View } from "../../stores/etcd/index.ts";
import { keyParts } from "./keys.ts";

/** The values of a view with keys `<prefix><node>/<id>`: a node's own share, and any by its id, without a walk through all. */
export interface NodeIndex<T> {
  /** Of the newest change that is in it. */
  readonly revision: bigint;
  /** What is there for the node, by id. Live: it changes under the reader between two waits. */
  of(nodeId: string): ReadonlyMap<string, T>;
  /** Whatever has this id, wherever it is. Ids never move from node to node. */
  find(id: string): { nodeId: string; value: T } | null;
  /** Calls back after each change of the node's share. */
  subscribe(nodeId: string, callback: () => void): Disposable;
}

const none: ReadonlyMap<string, never> = new Map<string, never>();

/** Follows `view` as long as that lives. Subscribers of the view that come later find the index as new as the view. */
export function indexByNode<T>(view: Pick<View<T>, "entries" | "subscribe" | "revision">, under: string): NodeIndex<T> {
  const byNode = new Map<string, Map<string, T>>();
  const nodeOf = new Map<string, string>();
  const callbacks = new Map<string, Set<() => void>>();
  function apply(change: Change<T>): string {
    const [nodeId = "", id = ""] = keyParts(change.key, under);
    const own = byNode.get(nodeId) ?? new Map<string, T>();
    if (change.type === "put") {
      own.set(id, change.value);
      nodeOf.set(id, nodeId);
    } else {
      own.delete(id);
      if (nodeOf.get(id) === nodeId) nodeOf.delete(id);
    }
    if (own.size > 0) byNode.set(nodeId, own);
    else byNode.delete(nodeId);
    return nodeId;
  }
  for (const [key, value] of view.entries()) apply({ type: "put", key, value, previous: undefined });
  view.subscribe((changes) => {
    for (const nodeId of new Set(changes.map(apply))) for (const callback of callbacks.get(nodeId) ?? []) callback();
  });
  return {
    get revision() {
      return view.revision;
    },
    of: (nodeId) => byNode.get(nodeId) ?? none,
    find(id) {
      const nodeId = nodeOf.get(id);
      const value = nodeId === undefined ? undefined : byNode.get(nodeId)?.get(id);
      return nodeId === undefined || value === undefined ? null : { nodeId, value };
    },
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
  };
}
