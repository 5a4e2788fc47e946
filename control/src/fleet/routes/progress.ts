import type { Db } from "../../stores/db/pool.ts";
import type { FleetView } from "../cluster/facts.ts";
import { behindHostsMax, type EdgeAppliedValue, noRoutes } from "../cluster/keys.ts";

export interface EdgeProgress {
  /** Edges that visitors may reach, whether or not they answer us: a silent one still serves its last table. */
  inRotation: number;
  /** Those that serve the published table or a newer one. */
  current: number;
}

/**
 * How far the edges have followed the published route table, as far as `hosts` are concerned. A cordoned edge is out of
 * rotation: nobody waits for it, though it goes on to serve whoever still reaches it.
 */
export async function edgeProgress(
  db: Db,
  fleet: Pick<FleetView, "routesMeta" | "edgeApplied">,
  hosts: readonly string[],
): Promise<EdgeProgress> {
  const edges = await edgesInRotation(db);
  return { inRotation: edges.length, current: edgesFollowing(fleet, edges, hosts) };
}

/**
 * How many of `edges` serve `hosts` as the published table, or a newer one, says: none while there is none, since nobody
 * knows then what they serve. After a restore of etcd that is what they served before.
 */
export function edgesFollowing(
  fleet: Pick<FleetView, "routesMeta" | "edgeApplied">,
  edges: readonly string[],
  hosts: readonly string[],
): number {
  const { generation } = fleet.routesMeta();
  if (generation === noRoutes.generation) return 0;
  return edges.filter((id) => isCurrent(fleet.edgeApplied(id), generation, hosts)).length;
}

/** The ids of the edges that visitors may reach: neither cordoned, fenced nor removed, and whole at least once. */
export async function edgesInRotation(db: Db): Promise<string[]> {
  const edges = await db
    .selectFrom("node")
    .select("id")
    .where("role", "=", "edge")
    .where("lifecycle", "=", "active")
    .where("schedulable", "=", true)
    .where("entering", "=", false)
    .where("last_seen_at", "is not", null)
    .execute();
  return edges.map(({ id }) => id);
}

/**
 * Whether an edge serves `hosts` as `generation` or a newer table says. One that could not serve a host (its bundle
 * did not arrive yet) has the table, but is not current for that host.
 */
export function isCurrent(
  applied: Pick<EdgeAppliedValue, "generation" | "behindHosts"> | null,
  generation: number,
  hosts: readonly string[],
): boolean {
  if (applied === null || applied.generation < generation) return false;
  const { behindHosts } = applied;
  return behindHosts.length < behindHostsMax && !hosts.some((host) => behindHosts.includes(host));
}
