import type { IdentityContext } from "../identity/context.ts";
import type { RuntimeLog } from "./agents/runtime-log.ts";
import type { ClusterIdentity } from "./ca/authority.ts";
import type { FleetView } from "./cluster/facts.ts";
import type { OperatorFacts } from "./cluster/operators.ts";

/** What endpoints about machines are given. */
export interface FleetContext extends IdentityContext {
  cluster: ClusterIdentity;
  /** Live facts of the fleet, from etcd: which nodes have a session, who serves what. */
  fleet: FleetView;
  /** What operators are told of the cluster. */
  operators: OperatorFacts;
  /** Throws `LogUnavailable` when the node does not answer in time. */
  queryLog(nodeId: string, placementId: string, lines: number): Promise<RuntimeLog>;
}
