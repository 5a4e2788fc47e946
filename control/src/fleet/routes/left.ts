import type { Db } from "../../stores/db/pool.ts";
import type { Etcd } from "../../stores/etcd/index.ts";
import type { RouteEntry } from "../cluster/route-entry.ts";
import { edgeProgress } from "./progress.ts";
import { type Routing, readRouting } from "./routing.ts";

/** Says of what a table has for one host whether it sends no visitor to what is to go. */
export type IsLeft = (route: RouteEntry | null, host: string) => boolean;

/**
 * Whether no edge sends visitors to something any more: the published table sends those of `hosts` elsewhere, and every
 * edge in rotation serves `hosts` as that table, or a newer one, says. Whoever takes away what visitors were sent to asks
 * here first.
 */
export async function haveEdgesLeft(
  { db, etcd, fleet }: { db: Db; etcd: Etcd; fleet: Routing },
  hosts: readonly string[],
  isLeft: IsLeft,
): Promise<boolean> {
  const haveBy = async (routing: Routing): Promise<boolean> => {
    if (!hosts.every((host) => isLeft(routing.route(host), host))) return false;
    const edges = await edgeProgress(db, routing, hosts);
    return edges.current >= edges.inRotation;
  };
  // The view costs nothing, and may be old: etcd has the last word.
  return (await haveBy(fleet)) && (await haveBy(await readRouting(etcd, hosts)));
}
