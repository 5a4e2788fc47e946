import type { Channel, DeploymentStatus } from "@svc/proto";
import type { Db } from "../../stores/db/pool.ts";

/** Whose container is meant: the one of a channel, or of one deployment. */
export type Scope = { channel: Channel } | { deploymentId: string };

export interface PlacedContainer {
  taskId: string;
  nodeId: string;
}

/** Containers that are to run now: of what the channel serves (of several previews the newest), or of the deployment. */
export async function listWanted(db: Db, projectId: string, scope: Scope): Promise<PlacedContainer[]> {
  const query = db
    .selectFrom("task")
    .select(["task.id as taskId", "task.node_id as nodeId", "task.owner_id as deploymentId"])
    .where("task.project_id", "=", projectId)
    .where("task.kind", "=", "serve")
    .where("task.desired", "=", "running")
    .where("task.node_id", "is not", null)
    .orderBy("task.epoch", "desc");
  const rows =
    "deploymentId" in scope
      ? await query.where("task.owner_id", "=", scope.deploymentId).execute()
      : await query
          .innerJoin("channel_state", "channel_state.deployment_id", "task.owner_id")
          .where("channel_state.project_id", "=", projectId)
          .where("channel_state.channel", "=", scope.channel)
          .where("channel_state.stopped", "=", false)
          .execute();
  return rows.flatMap(({ taskId, nodeId, deploymentId }) =>
    nodeId !== null && deploymentId === rows[0]?.deploymentId ? [{ taskId, nodeId }] : [],
  );
}

/** The container that came last, with the deployment that it was of. */
export interface LastContainer extends PlacedContainer {
  status: DeploymentStatus;
  error: string | null;
}

/**
 * The newest container of the newest deployment that came to its end without anybody wanting it to: failed, or not
 * started again. Of one deployment: whatever became of it. Null when there never was one.
 */
export async function findLast(db: Db, projectId: string, scope: Scope): Promise<LastContainer | null> {
  const query = db
    .selectFrom("deployment")
    .innerJoin("task", "task.owner_id", "deployment.id")
    .select(["task.id as taskId", "task.node_id as nodeId", "deployment.status", "deployment.error"])
    .where("deployment.project_id", "=", projectId)
    .where("task.kind", "=", "serve")
    .where("task.node_id", "is not", null)
    .orderBy("deployment.number", "desc")
    .orderBy("task.epoch", "desc")
    .limit(1);
  const row = await ("deploymentId" in scope
    ? query.where("deployment.id", "=", scope.deploymentId)
    : query
        .where("deployment.channel", "=", scope.channel)
        .where("deployment.status", "in", ["failed", "stopped", "running"])
  ).executeTakeFirst();
  return row === undefined || row.nodeId === null ? null : { ...row, nodeId: row.nodeId };
}
