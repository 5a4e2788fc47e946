import type { Fleet } from "../cluster/fleet.ts";
import { behindHostsMax, type EdgeAppliedValue } from "../cluster/keys.ts";
import type { Db } from "../db/pool.ts";

export interface EdgeProgress {
  /** Edges that visitors may reach, whether or not they answer us: a silent one still serves its last table. */
  inRotation: number;
  /** Those that serve the published table or a newer one. */
  current: number;
}

/** How far the edges have followed the published route table, as far as `hosts` are concerned. */
export async function edgeProgress(db: Db, fleet: Fleet, hosts: readonly string[]): Promise<EdgeProgress> {
  const edges = await db
    .selectFrom("node")
    .select("id")
    .where("role", "=", "edge")
    .where("lifecycle", "=", "active")
    .where("schedulable", "=", true)
    .where("last_seen_at", "is not", null)
    .execute();
  const { generation } = fleet.routesMeta();
  const current = edges.filter(({ id }) => isCurrent(fleet.edgeApplied(id), generation, hosts));
  return { inRotation: edges.length, current: current.length };
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
