import type { FleetNode } from "@svc/control/fleet/cluster/nodes";
import type { Tables } from "../../stores/postgres.ts";

/** Every node with what its operators say of it: mirrors `control/src/fleet/replicas/nodes.ts`. */
export function readNodes(tables: Tables): Map<string, FleetNode> {
  const nodes = [...tables.nodes.values()].filter(({ role }) => role === "node");
  return new Map(
    nodes.map(({ id, lifecycle, drain, quarantinedAt }) => [
      id,
      { id, lifecycle, drain, quarantined_at: quarantinedAt, engine_stalled: false },
    ]),
  );
}
