import { setChannelState } from "../../fleet/routes/store.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Deployment } from "../../stores/db/tables.ts";
import { switchChannelJobs } from "../jobs/definitions/change.ts";

/**
 * The one way to point a channel at a deployment (null: at nothing): what visitors get and what runs by schedule change in one
 * transaction.
 */
export async function pointChannel(
  tx: Db,
  place: Pick<Deployment, "project_id" | "channel" | "pr_number">,
  state: { deploymentId: string | null; stopped: boolean },
): Promise<void> {
  await setChannelState(tx, place, state);
  await switchChannelJobs(tx, place, state.deploymentId);
}
