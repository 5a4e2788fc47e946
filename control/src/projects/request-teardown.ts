import { sql } from "kysely";
import type { Db } from "../db/pool.ts";
import { notify, routeChannel } from "../deployments/store.ts";
import { enqueue } from "../work/queue.ts";

/**
 * Begins the end of a project whose row the caller has locked: nobody sees it any more, and the work of kind
 * `teardown` does the rest.
 */
export async function requestTeardown(tx: Db, projectId: string): Promise<void> {
  await tx.updateTable("project").set({ deleting_at: sql<Date>`now()` }).where("id", "=", projectId).execute();
  await enqueue(tx, { kind: "teardown", key: projectId, payload: { projectId } });
  await notify(tx, routeChannel);
}
