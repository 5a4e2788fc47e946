import { fromJsonString } from "@bufbuild/protobuf";
import { type Route, RouteSchema } from "@svc/proto/edge";
import type { Log } from "../../log.ts";
import type { View } from "../../stores/etcd/index.ts";
import type { RouteKey } from "../cluster/entries.ts";
import { keys } from "../cluster/keys.ts";
import { isWhole, type PublishedTable } from "./table-outbox.ts";

/** The newest whole table, for all routers of this replica. */
export interface TableFeed extends Disposable {
  /** Null before the first table was published. */
  current(): (PublishedTable & { routes: ReadonlyMap<string, Route> }) | null;
  subscribe(callback: () => void): Disposable;
}

export function createTableFeed(view: View<RouteKey>, log: Log): TableFeed {
  const callbacks = new Set<() => void>();
  let routes = new Map<string, Route>();
  let hosts = new Map<string, bigint>();
  let current: (PublishedTable & { routes: ReadonlyMap<string, Route> }) | null = null;

  function decode(host: string, json: string): Route | null {
    try {
      const route = fromJsonString(RouteSchema, json, { ignoreUnknownFields: true });
      if (route.host === host) return route;
      log.error({ host, named: route.host }, "a published route is under another name than its own");
    } catch (error) {
      log.error({ err: error, host }, "a published route does not decode");
    }
    return null;
  }

  function refresh(): boolean {
    const found = view.get(keys.routesMeta);
    if (found?.kind !== "meta" || found.meta.generation === current?.generation) return false;
    const { generation, count, emptied = false } = found.meta;
    const entries = [...view.entries()].flatMap(([, value]) => (value.kind === "route" ? [value] : []));
    const revisions = new Map(entries.map(({ host, modRevision }) => [host, modRevision]));
    if (!isWhole(revisions, { count, modRevision: found.modRevision })) return false;
    const nextRoutes = new Map<string, Route>();
    const nextHosts = new Map<string, bigint>();
    for (const { host, json, modRevision } of entries) {
      // One bad entry costs one host and not the table.
      const known = hosts.get(host) === modRevision ? routes.get(host) : undefined;
      const route = known ?? decode(host, json);
      if (route === null) continue;
      nextRoutes.set(host, route);
      nextHosts.set(host, modRevision);
    }
    routes = nextRoutes;
    hosts = nextHosts;
    current = { generation, hosts, emptied, routes };
    return true;
  }

  refresh();
  const subscription = view.subscribe(() => {
    if (refresh()) for (const callback of callbacks) callback();
  });
  return {
    current: () => current,
    subscribe(callback) {
      callbacks.add(callback);
      return { [Symbol.dispose]: () => void callbacks.delete(callback) };
    },
    [Symbol.dispose]: () => subscription[Symbol.dispose](),
  };
}
