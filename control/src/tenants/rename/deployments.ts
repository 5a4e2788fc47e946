import type { Db } from "../../stores/db/pool.ts";

/** Statuses of deployments that have an address: those on their way, and what a channel serves or could serve again. */
export const liveStatuses = ["queued", "building", "deploying", "running", "stopped"] as const;

/** Newest first, as a deployment that takes over from an older one locks them. */
export const lockLiveDeployments = (tx: Db, projectId: string) =>
  tx
    .selectFrom("deployment")
    .select("id")
    .where("project_id", "=", projectId)
    .where("status", "in", liveStatuses)
    .orderBy("number", "desc")
    .forUpdate()
    .execute();
