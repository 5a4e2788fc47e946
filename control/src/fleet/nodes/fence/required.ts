import { failureMessage, type NodeAxes } from "@svc/proto";
import type { Db } from "../../../stores/db/pool.ts";
import { inTransaction } from "../../../stores/db/transaction.ts";
import type { Fleet } from "../../cluster/fleet.ts";
import { ownerOf } from "../../tasks/owners/index.ts";

const code = "NODE_FENCE_REQUIRED";
const phase = "fence-required";

/** Whether a node in that state may never tell how its work ended. */
const isLost = (link: NodeAxes["link"]): boolean => link === "unreachable" || link === "quarantined";

/**
 * Tells owners that wait for a command on a node which does not answer: it may have run, so nobody else may run it
 * until somebody declares the node lost. One line each.
 */
export async function noteFenceRequired({ db, fleet }: { db: Db; fleet: Fleet }): Promise<void> {
  const waiting = fleet
    .runs()
    .filter(({ run }) => run.state === "granted" || run.state === "started")
    .filter(({ nodeId }) => isLost(fleet.nodeLink(nodeId).link));
  for (const { run } of waiting) {
    const owner = ownerOf(run.ownerKind);
    // Asked first and without a lock, as the same ones wait in every round.
    if (await owner.hasLine(db, run.ownerId, phase)) continue;
    await inTransaction(db, async (tx) => {
      if (!(await owner.isNewLine(tx, run.ownerId, phase))) return;
      await owner.addLine(tx, run.ownerId, { phase, detail: `${code}: ${failureMessage(code)}` });
    });
  }
}
