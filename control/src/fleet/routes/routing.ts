import type { Etcd } from "../../stores/etcd/index.ts";
import type { Fleet } from "../cluster/fleet.ts";
import { edgeAppliedValue, keyParts, keys, noRoutes, prefix, routesMetaValue } from "../cluster/keys.ts";
import type { RouteEntry } from "../cluster/route-entry.ts";

/** What edges were told to serve, and what they serve. */
export type Routing = Pick<Fleet, "route" | "routesMeta" | "edgeApplied">;

/**
 * The same for `hosts` by etcd itself at this moment. A replica's view may stand still for seconds without its noticing, and
 * then shows edges at an old table: whoever takes a container away because nobody is sent to it asks here first.
 */
export async function readRouting(etcd: Etcd, hosts: readonly string[]): Promise<Routing> {
  const metaEntry = await etcd.get(keys.routesMeta);
  const meta = metaEntry === null ? null : routesMetaValue.parse(JSON.parse(metaEntry.value));
  const routes = new Map(
    await Promise.all(
      hosts.map(async (host): Promise<[string, RouteEntry | null]> => {
        const entry = await etcd.get(keys.route(host));
        return [host, entry === null ? null : (JSON.parse(entry.value) as RouteEntry)];
      }),
    ),
  );
  // After the table: what edges have acknowledged by now counts against it, or against a newer one.
  const { entries } = await etcd.range(prefix.edges);
  const applied = new Map(
    entries.flatMap(({ key, value }) => {
      const [id = "", part] = keyParts(key, prefix.edges);
      return part === "applied" ? [[id, edgeAppliedValue.parse(JSON.parse(value))] as const] : [];
    }),
  );
  return {
    route: (host) => routes.get(host) ?? null,
    routesMeta: () => ({
      ...(meta ?? noRoutes),
      modRevision: metaEntry?.modRevision ?? null,
    }),
    edgeApplied: (edgeId) => applied.get(edgeId) ?? null,
  };
}
