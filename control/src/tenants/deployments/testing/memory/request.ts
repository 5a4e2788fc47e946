import { openStatuses } from "@svc/proto";
import { Refused } from "../../../../stores/refused.ts";
import type { LifecyclePayload } from "../../lifecycle/rows.ts";
import type { DeploymentRow, Tx } from "./tables.ts";

const open = new Set<string>(openStatuses);

/** As `requestLifecycle` of `lifecycle/request.ts`. @throws Refused */
export function requestLifecycle(
  tx: Tx,
  projectId: string,
  action: LifecyclePayload["action"],
): { deploymentId: string; workId: number } {
  const { tables, now } = tx;
  const row = tables.deployments.get(tables.siteOf(projectId)?.deploymentId ?? "");
  if (row === undefined || !(action === "stop" ? mayStop(tx, row) : row.status === "stopped"))
    throw new Refused(action === "stop" ? "STOP_UNAVAILABLE" : "START_UNAVAILABLE");
  for (const each of tables.deployments.values()) {
    if (each.projectId !== projectId || !open.has(each.status) || (each.heldAt === null) !== (action === "stop"))
      continue;
    each.heldAt = action === "stop" ? now : null;
    tables.lines.push({ of: each.id, what: `${action}-requested`, at: now });
  }
  const key = `lifecycle/${projectId}`;
  const payload: LifecyclePayload = { projectId, action, deploymentId: row.id };
  const isOver = action === "start" && row.error !== null;
  const waiting = [...tables.work.items.values()].find(
    (item) => !isOver && item.key === key && isSame(item.payload as LifecyclePayload, payload),
  );
  if (waiting === undefined && action === "start") Object.assign(row, { heldAt: null, error: null });
  return { deploymentId: row.id, workId: waiting?.id ?? tables.work.add(tx, { kind: "lifecycle", key, payload }) };
}

/** It serves, or takes the traffic over at this moment. */
const mayStop = ({ tables }: Tx, row: DeploymentRow): boolean =>
  row.status === "running" ||
  (row.status === "deploying" && tables.servingBeside(row).some(({ status }) => status === "running"));

const isSame = (a: LifecyclePayload, b: LifecyclePayload): boolean =>
  a.action === b.action && a.deploymentId === b.deploymentId;
