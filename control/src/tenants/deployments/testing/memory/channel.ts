import { routeTopic } from "../../../../fleet/cluster/topics.ts";
import { retireKey } from "../../../../fleet/tasks/deployment.ts";
import type { Tx } from "./tables.ts";

/** As `pointChannel` of `channel.ts`; there are no jobs. */
export function pointChannel(
  { tables, now, notify }: Tx,
  projectId: string,
  state: { deploymentId: string | null; stopped: boolean },
): void {
  Object.assign(tables.siteOf(projectId) ?? {}, state, { changedAt: now });
  notify(routeTopic, projectId);
}

/** As `retire` of `retire/request.ts`. */
export function retire(tx: Tx, deploymentId: string): void {
  tx.tables.work.add(tx, { kind: "retire", key: retireKey(deploymentId), payload: { deploymentId } });
}
