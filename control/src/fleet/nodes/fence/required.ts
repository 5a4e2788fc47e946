import { failureMessage, type NodeAxes } from "@svc/proto";
import type { Fleet } from "../../cluster/fleet.ts";
import type { LostRows } from "./store.ts";

const code = "NODE_FENCE_REQUIRED";
const phase = "fence-required";

/** Whether a node in that state may never tell how its work ended. */
const isLost = (link: NodeAxes["link"]): boolean => link === "unreachable" || link === "quarantined";

/**
 * Tells owners that wait for a command on a node which does not answer: it may have run, so nobody else may run it
 * until somebody declares the node lost. One line each.
 */
export async function noteFenceRequired({ lost, fleet }: { lost: LostRows; fleet: Fleet }): Promise<void> {
  const waiting = fleet
    .runs()
    .filter(({ run }) => run.state === "granted" || run.state === "started")
    .filter(({ nodeId }) => isLost(fleet.nodeLink(nodeId).link));
  const line = { phase, detail: `${code}: ${failureMessage(code)}` };
  for (const { run } of waiting) await lost.tellOnce(run, line);
}
