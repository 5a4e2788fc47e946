import { openStatuses } from "@svc/proto";
import { sql } from "kysely";
import { insertEvent } from "../../../fleet/tasks/deployment.ts";
import type { Db } from "../../../stores/db/pool.ts";

/*
 * A stop covers everything that was accepted before it: production's deployments on their way are made ready, and do
 * not serve until a start. What is accepted after it serves again. Needs the project locked, which orders both with
 * whatever takes the channel over.
 */

/** Returns the deployments that are held from now on. */
export function holdOpen(tx: Db, projectId: string): Promise<string[]> {
  return markOpen(tx, projectId, { isHeld: true });
}

/** Returns the deployments that serve once they are ready after all. */
export function letOpenServe(tx: Db, projectId: string): Promise<string[]> {
  return markOpen(tx, projectId, { isHeld: false });
}

async function markOpen(tx: Db, projectId: string, { isHeld }: { isHeld: boolean }): Promise<string[]> {
  const rows = await tx
    .updateTable("deployment")
    .set({ held_at: isHeld ? sql<Date>`now()` : null })
    .where("project_id", "=", projectId)
    .where("channel", "=", "production")
    .where("status", "in", [...openStatuses])
    .where("held_at", isHeld ? "is" : "is not", null)
    .returning("id")
    .execute();
  for (const { id } of rows) {
    await insertEvent(tx, { deploymentId: id, phase: isHeld ? "stop-requested" : "start-requested" });
  }
  return rows.map(({ id }) => id);
}
