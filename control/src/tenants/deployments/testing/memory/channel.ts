import { routeTopic } from "../../../../fleet/cluster/topics.ts";
import { retireKey } from "../../../../fleet/tasks/deployment.ts";
import { switchChannelJobs } from "../../../jobs/testing/memory/change.ts";
import { type DeploymentRow, moveDeployment, type Tx } from "./tables.ts";

/** As `pointChannel` of `channel.ts`. */
export function pointChannel(
  tx: Tx,
  projectId: string,
  state: { deploymentId: string | null; stopped: boolean },
): void {
  Object.assign(tx.tables.siteOf(projectId) ?? {}, state, { changedAt: tx.now });
  tx.notify(routeTopic, projectId);
  switchChannelJobs(tx, projectId, state.deploymentId);
}

/** As `retire` of `retire/request.ts`. */
export function retire(tx: Tx, deploymentId: string): void {
  tx.tables.work.add(tx, { kind: "retire", key: retireKey(deploymentId), payload: { deploymentId } });
}

/** As `supersedeOthers` of `take-over.ts`. */
export function supersedeOthers(tx: Tx, row: DeploymentRow): void {
  for (const { id, status } of tx.tables.servingBeside(row)) {
    moveDeployment(tx, id, { from: status, to: "superseded", phase: "superseded" });
    retire(tx, id);
  }
}

/** As `giveChannelBack` there. */
export function giveChannelBack(tx: Tx, row: DeploymentRow): void {
  if (tx.tables.siteOf(row.projectId)?.deploymentId !== row.id) return;
  const [previous] = tx.tables.servingBeside(row);
  pointChannel(tx, row.projectId, { deploymentId: previous?.id ?? null, stopped: previous?.status === "stopped" });
}
