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
import { isInRotation } from "@svc/control/fleet/testing/replica-rows";
import type { Work } from "../kernel/kernel.ts";
import type { Tables } from "../stores/postgres.ts";
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

/** Edges that visitors may reach. */
export const edgesInRotation = (tables: Tables): string[] =>
  [...tables.nodes.values()].filter(isInRotation).map(({ id }) => id);
