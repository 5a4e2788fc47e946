import type { Etcd } from "../../stores/etcd/index.ts";
import type { RouteEntry } from "../cluster/route-entry.ts";
import { edgesFollowing } from "./progress.ts";
import { type Routing, readRouting } from "./routing.ts";

export interface LeftDeps {
  /** Those that visitors may reach at this moment: see `edgesInRotation`. */
  edges: () => Promise<string[]>;
  etcd: Etcd;
  /** What this replica knows. */
  fleet: Routing;
}

/** Says of what a table has for one host whether it sends no visitor to what is to go. */
export type IsLeft = (route: RouteEntry | null, host: string) => boolean;

/**
 * Whether no edge sends visitors to something any more: the published table sends those of `hosts` elsewhere, and every
 * edge in rotation serves `hosts` as that table, or a newer one, says. Whoever takes away what visitors were sent to asks
 * here first.
 */
export async function haveEdgesLeft(
  { edges, etcd, fleet }: LeftDeps,
  hosts: readonly string[],
  isLeft: IsLeft,
): Promise<boolean> {
  const haveBy = async (routing: Routing): Promise<boolean> => {
    if (!hosts.every((host) => isLeft(routing.route(host), host))) return false;
    const inRotation = await edges();
    return edgesFollowing(routing, inRotation, hosts) >= inRotation.length;
  };
  // The view costs nothing, and may be old: etcd has the last word.
  return (await haveBy(fleet)) && (await haveBy(await readRouting(etcd, hosts)));
}
