import { type NodeSessionValue, nodeSessionValue, prefix } from "@svc/control/fleet/cluster/keys";
import { createLog } from "@svc/control/log";
import { createView, type Etcd } from "@svc/control/stores/etcd/index";
import { monotonicMs } from "./monotonic.ts";

/** The session keys of all nodes, as every replica of control sees them. */
export interface Sessions extends AsyncDisposable {
  /** Nodes with a session that is compared with what is desired, at replicas for which `isAlive` holds. */
  reconciled(isAlive?: (serverId: string) => boolean): number;
  /** Replicas that hold sessions. */
  serverIds(): Set<string>;
  /** When the key of each of these nodes went, on the clock of `monotonicMs`; those whose key is there are left out. */
  goneAt(nodeIds: readonly string[]): number[];
  /** Resolves with the present time as soon as `condition` holds, looked at after each change. Throws after `timeoutMs`. */
  until(what: string, timeoutMs: number, condition: () => boolean): Promise<number>;
}

export async function watchSessions(etcd: Etcd): Promise<Sessions> {
  const view = createView<NodeSessionValue>(
    etcd,
    prefix.nodes,
    (_, value) => nodeSessionValue.parse(JSON.parse(value)),
    {
      log: createLog("silent"),
    },
  );
  const gone = new Map<string, number>();
  const looking = new Set<() => void>();
  const idOf = (key: string) => key.slice(prefix.nodes.length).split("/")[0] ?? "";
  view.subscribe((changes) => {
    const at = monotonicMs();
    for (const { type, key } of changes) {
      if (type === "delete") gone.set(idOf(key), at);
      else gone.delete(idOf(key));
    }
    for (const look of looking) look();
  });
  await view.ready();
  return {
    reconciled(isAlive = () => true) {
      let count = 0;
      for (const [, session] of view.entries()) {
        if (session.reconciled && !session.detached && isAlive(session.serverId)) count += 1;
      }
      return count;
    },
    serverIds: () => new Set([...view.entries()].map(([, { serverId }]) => serverId)),
    goneAt: (nodeIds) => nodeIds.flatMap((id) => gone.get(id) ?? []),
    until: (what, timeoutMs, condition) =>
      new Promise((resolve, reject) => {
        const settle = (finish: () => void) => {
          clearTimeout(timer);
          looking.delete(look);
          finish();
        };
        const look = () => {
          if (condition()) settle(() => resolve(monotonicMs()));
        };
        const timer = setTimeout(
          () => settle(() => reject(new Error(`waited ${timeoutMs / 1000} s in vain for ${what}`))),
          timeoutMs,
        );
        looking.add(look);
        look();
      }),
    [Symbol.asyncDispose]: () => view[Symbol.asyncDispose](),
  };
}
