import {
  type EdgeAppliedValue,
  keyParts,
  keys,
  noRoutes,
  prefix,
  type RoutesMetaValue,
} from "@svc/control/fleet/cluster/keys";
import type { RouteEntry } from "@svc/control/fleet/cluster/route-entry";
import type { Routing } from "@svc/control/fleet/routes/routing";
import type { Cores } from "../cores.ts";
import type { Work } from "../kernel/kernel.ts";
import type { Replica } from "./replica.ts";

/** What edges were told and what they serve, by etcd itself at this moment: mirrors `control/src/fleet/routes/routing.ts`. */
export function* readRouting({ client, world: { values } }: Replica, host: string): Work<Routing> {
  const metaEntry = yield* client.get(keys.routesMeta);
  const meta = metaEntry === null ? null : values.of<RoutesMetaValue>(metaEntry.value);
  const routeEntry = yield* client.get(keys.route(host));
  const route = routeEntry === null ? null : values.of<RouteEntry>(routeEntry.value);
  // After the table: what edges have acknowledged by now counts against it, or against a newer one.
  const { entries } = yield* client.range(prefix.edges);
  const applied = new Map(
    entries.flatMap(({ key, value }) => {
      const [id = "", part] = keyParts(key, prefix.edges);
      return part === "applied" ? [[id, values.of<EdgeAppliedValue>(value)] as const] : [];
    }),
  );
  return {
    route: (at) => (at === host ? route : null),
    routesMeta: () => ({
      ...(meta ?? noRoutes),
      modRevision: metaEntry?.modRevision ?? null,
    }),
    edgeApplied: (edgeId) => applied.get(edgeId) ?? null,
  };
}

/** Upstreams to which an edge may send visitors of `host`; null: to any of them. */
export function routedTo(
  { edgesFollowing }: Cores,
  routing: Routing,
  edges: readonly string[],
  host: string,
): ReadonlySet<string> | null {
  if (edgesFollowing(routing, edges, [host]) < edges.length) return null;
  return new Set(routing.route(host)?.proxy?.upstreams ?? []);
}
